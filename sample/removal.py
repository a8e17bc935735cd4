"""Takes the sample away: its configuration, messages, failures, topics and what handlers stored."""

import time
from collections import Counter
from typing import Any, Final

from django.db import connection, models, transaction
from django.db.models import Q
from django.db.models.functions import Now

from integration.actions import configuration
from integration.actions.configuration import Author
from integration.actions.errors import InUseError
from integration.errors import IntegrationError
from integration.kafka.admin import delete_topic
from integration.models import (
    ChannelTarget,
    ConfigurationChange,
    Endpoint,
    EnterpriseService,
    ExternalSystem,
    ObjectStructure,
    Operation,
    OperationItem,
    PartitionLease,
    Provider,
    PublishChannel,
    Queue,
)
from sample import names, partners
from sample.models import Asset, MeterReading, PurchaseOrder, Registration

# A run notices within seconds that its queue is switched off, and ends with its batch.
PATIENCE_SECONDS: Final = 15.0
# The time between looks of the traffic whether the sample is still there, and a little more.
TRAFFIC_SECONDS: Final = 1.5
ERRORS: Final = "SELECT id FROM integration_messageerror WHERE queue_id = ANY(%(queues)s)"
PLACES: Final = "SELECT id FROM integration_queuepartition WHERE queue_id = ANY(%(queues)s)"
SENT: Final = "topic = ANY(%(topics)s) AND provider_id = ANY(%(providers)s)"
# Table and which of its rows, in an order in which nothing refers to what is gone already.
ROWS: Final = (
    ("integration_operationitem", f"error_id IN ({ERRORS})"),
    ("integration_errorattempt", f"error_id IN ({ERRORS})"),
    ("integration_errorchange", f"error_id IN ({ERRORS})"),
    ("integration_messageerror", "queue_id = ANY(%(queues)s)"),
    ("integration_messagetrack", "queue_id = ANY(%(queues)s)"),
    ("integration_seenmessage", "queue_id = ANY(%(queues)s)"),
    ("integration_delivery", "queue_id = ANY(%(queues)s)"),
    ("integration_endpointtest", "endpoint_id = ANY(%(endpoints)s)"),
    ("integration_endpointcircuit", "endpoint_id = ANY(%(endpoints)s)"),
    ("integration_receipt", "system_id = ANY(%(systems)s)"),
    ("integration_apitoken", "system_id = ANY(%(systems)s)"),
    ("integration_batchlog", f"partition_id IN ({PLACES})"),
    ("integration_gap", f"partition_id IN ({PLACES})"),
    ("integration_rescuedrecord", f"partition_id IN ({PLACES})"),
    ("integration_rescue", f"partition_id IN ({PLACES})"),
    ("integration_partitionlease", f"partition_id IN ({PLACES})"),
    ("integration_queuepartition", "queue_id = ANY(%(queues)s)"),
    ("integration_outboxrow", SENT),
    ("integration_outboxchange", SENT),
    (
        "integration_tally",
        "subject = ANY(CASE kind WHEN 'call' THEN %(endpoints)s ELSE %(queues)s END)",
    ),
    ("integration_queuechange", "queue_id = ANY(%(queues)s)"),
    ("integration_storedobject", "structure_id = ANY(%(structures)s)"),
    ("crontasks_notice", "subject = ANY(%(names)s)"),
)


class SampleBusyError(IntegrationError):
    """A worker is still at work on a queue of the sample."""

    code = "SAMPLE_BUSY"

    def __init__(self, names: list[str]) -> None:
        super().__init__(
            f"A worker is still at work on {', '.join(names)}, so nothing was removed yet; the "
            "sample's queues are switched off.",
            next_step="Try again in a minute.",
        )


def is_there() -> bool:
    systems = ExternalSystem.objects.filter(name__in=names.SYSTEMS)
    return systems.exists() or Queue.objects.filter(name__in=names.TOPICS).exists()


def was_removed() -> bool:
    """Return whether a person took it away: it then stays away until it is planted by hand."""
    if is_there():
        return False
    last = ConfigurationChange.objects.filter(kind="externalsystem", name=names.SYSTEM).first()
    return last is not None and last.action == "delete"


def goes() -> list[str]:
    queues = list(_queues())
    listed = ", ".join(queue.name for queue in queues) or "none"
    failures = sum(queue.errors.count() for queue in queues)
    topics = ", ".join(queue.topic for queue in queues) or "none"
    return [
        f"The queues {listed}, with their positions, schedules and history.",
        f"{failures:,} failures of them, open ones too, and all their messages in tracking.",
        f"The topics {topics} on the cluster, with every message in them.",
        f"The external systems {', '.join(names.SYSTEMS)} with their endpoints and tokens.",
        f"The channel {names.PURCHASE}, and what its partners got: their counts, files and tables.",
        "The services and object structures of the sample, and the documents stored in them.",
        "The assets, orders and readings that its handlers stored. Its traffic ends.",
        "The provider stays, and so does everything that was made by hand.",
    ]


def remove(author: Author) -> list[str]:
    """Remove it and tell what was done. Raises SampleBusyError."""
    queues = list(_queues().select_related("provider"))
    _queues().update(enabled=False)
    _wait_for_workers()
    with transaction.atomic():
        removed = _remove_rows(queues)
        gone, staying = _remove_configuration(queues, author)
    done = [f"{removed:,} rows of messages and what they stored", *gone]
    return [*done, *_remove_topics(queues), *partners.forget(), *staying]


def _queues() -> models.QuerySet[Queue]:
    return Queue.objects.filter(name__in=(*names.TOPICS, names.REGISTRATIONS))


def _wait_for_workers() -> None:
    held = Q(released_at__isnull=True, lease_until__gt=Now(), partition__queue__in=_queues())
    until = time.monotonic() + PATIENCE_SECONDS
    while True:
        busy = PartitionLease.objects.filter(held).values_list("partition__queue__name", flat=True)
        queues = sorted(set(busy))
        if not queues:
            return
        if time.monotonic() > until:
            raise SampleBusyError(queues)
        time.sleep(0.2)


def _remove_rows(queues: list[Queue]) -> int:
    """Remove what is no configuration: messages, failures, positions, what handlers stored."""
    values: dict[str, Any] = {
        "queues": [queue.pk for queue in queues],
        "topics": [queue.topic for queue in queues],
        "names": [queue.name for queue in queues],
        "endpoints": _numbers(Endpoint, name__in=names.ENDPOINTS),
        "systems": _numbers(ExternalSystem, name__in=names.SYSTEMS),
        "providers": list({queue.provider_id for queue in queues}),
        "structures": _numbers(ObjectStructure, name__in=names.STRUCTURES),
    }
    operations = set(
        OperationItem.objects.filter(error__queue__in=queues).values_list("operation", flat=True)
    )
    removed = 0
    with connection.cursor() as cursor:
        for table, which in ROWS:
            cursor.execute(f"DELETE FROM {table} WHERE {which}", values)
            removed += cursor.rowcount
    emptied = Operation.objects.filter(pk__in=operations, items__isnull=True)
    removed += emptied.delete()[0]
    for model in (MeterReading, PurchaseOrder, Asset, Registration):
        removed += model._default_manager.all().delete()[0]
    return removed


def _numbers(model: type[models.Model], **which: Any) -> list[int]:
    return list(model._default_manager.filter(**which).values_list("pk", flat=True))


def _remove_configuration(queues: list[Queue], author: Author) -> tuple[list[str], list[str]]:
    """Each with its row of audit, told by kind; what other configuration needs stays, by name."""
    ordered: list[Any] = list(ChannelTarget.objects.filter(channel__name=names.PURCHASE))
    ordered += PublishChannel.objects.filter(name=names.PURCHASE)
    # An error queue goes after those that feed it.
    ordered += sorted(queues, key=lambda queue: (queue.is_error_queue, queue.name))
    ordered += Endpoint.objects.filter(name__in=names.ENDPOINTS)
    services = (*names.SERVICES, names.REGISTRATION)
    ordered += EnterpriseService.objects.filter(interface__in=services)
    ordered += ObjectStructure.objects.filter(name__in=names.STRUCTURES)
    ordered += ExternalSystem.objects.filter(name__in=names.SYSTEMS)
    gone: Counter[str] = Counter()
    staying = []
    for row in ordered:
        try:
            with transaction.atomic():
                configuration.delete(row, author)
        except InUseError as problem:
            staying.append(f"{row._meta.verbose_name} {row} stays: {problem.sentence}")
        else:
            gone[str(row._meta.verbose_name_plural)] += 1
    return [f"{count} {word}" for word, count in gone.items()], staying


def _remove_topics(queues: list[Queue]) -> list[str]:
    """Remove topics once the traffic has noticed; an absent cluster keeps them, which is told."""
    if queues:
        time.sleep(TRAFFIC_SECONDS)
    gone, staying = 0, []
    for queue in queues:
        provider: Provider = queue.provider
        try:
            delete_topic(provider, queue.topic)
        except IntegrationError as problem:
            staying.append(f"the topic {queue.topic} stays on the cluster: {problem}")
        else:
            gone += 1
    return [f"{gone} topics", *staying]
