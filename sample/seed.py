"""The sample's configuration: partners with their topics, queues, services and structures."""

import time
from collections.abc import Iterator
from typing import Any, Final

from django.conf import settings
from django.db import transaction

from integration import registration
from integration.errors import IntegrationError
from integration.kafka import admin
from integration.kafka.errors import TopicUnknownError
from integration.models import (
    EnterpriseService,
    ExternalSystem,
    ObjectStructure,
    Provider,
    Queue,
)
from sample import names, outbound

RETENTION_SECONDS: Final = 7 * 86_400
# A new topic needs a moment until its partitions have leaders.
TOPIC_READY_SECONDS: Final = 20.0
MAINTENANCE_PARTITIONS: Final = 3
INBOUND: Final = {"direction": Queue.Direction.INBOUND, "start_from": Queue.StartFrom.BEGINNING}

LOCATION_SCHEMA: Final = {
    "type": "object",
    "required": ["location", "siteid", "type"],
    "properties": {
        "location": {"type": "string", "maxLength": 25},
        "siteid": {"type": "string", "maxLength": 8},
        "type": {"enum": ["OPERATING", "STOREROOM", "REPAIR"]},
        "area_sqm": {"type": "number", "minimum": 0},
    },
}
STRUCTURES: Final[tuple[dict[str, Any], ...]] = (
    {
        "name": names.ORDERS,
        "description": "Which revision of each purchase order was applied last",
        "key_paths": ["$.ponum"],
        "version_path": "$.revision",
    },
    {
        "name": names.LEVELS,
        "description": "Which level of each part came last, by depot",
        "key_paths": ["$.siteid", "$.itemnum"],
    },
    {
        "name": names.LOCATIONS,
        "description": "Buildings and rooms, as the ERP describes them",
        "key_paths": ["$.location", "$.siteid"],
        "json_schema": LOCATION_SCHEMA,
        "tombstone": ObjectStructure.Tombstone.DELETE,
    },
)
SYSTEMS: Final = (
    (names.SYSTEM, "The ERP of the maintenance department"),
    (names.DEPOT, "The depots' terminals: what lies where"),
    *outbound.DESCRIPTIONS.items(),
)
SERVICES: Final[tuple[tuple[str, str, dict[str, Any]], ...]] = (
    (names.ASSET, "Machines: created, moved, taken out of service", {}),
    (names.ORDER, "Purchase orders with their lines", {}),
    (names.METER, "Readings of running hours, pressure and temperature", {}),
    (names.LOCATION, "Buildings and rooms", {"structure": names.LOCATIONS}),
    (names.LEVEL, "How many of a part lie in a depot", {}),
    (
        names.INVENTORY,
        "Stock levels of the ERP; off until the stock-taking is over",
        {"enabled": False},
    ),
)


class NoKafkaError(IntegrationError):
    """Nobody said where the sample's Kafka is."""

    code = "NO_KAFKA"

    def __init__(self) -> None:
        super().__init__(
            "SLUICE_KAFKA_BOOTSTRAP is not set, so the sample's topics cannot be made.",
            next_step="Set it, or leave the sample out with SAMPLE=0.",
        )


def plant() -> list[str]:
    """Make what is missing and return its names. Raises IntegrationError, ValidationError."""
    if not settings.SLUICE_KAFKA_BOOTSTRAP:
        raise NoKafkaError
    made = list(_records())
    provider = Provider.objects.get(name=names.PROVIDER)
    for name, partitions, fields in _queues():
        topic = names.TOPICS[name]
        if not Queue.objects.filter(name=name).exists():
            _topic(provider, topic, partitions)
            system = ExternalSystem.objects.get(name=names.SENDERS[name])
            _queue(provider, system, name=name, topic=topic, **fields)
            made.append(f"the queue {name} on the topic {topic}")
    made += outbound.channel()
    return made


def _records() -> Iterator[str]:
    provider, is_new = Provider.objects.get_or_create(
        name=names.PROVIDER, defaults={"bootstrap_servers": settings.SLUICE_KAFKA_BOOTSTRAP}
    )
    if is_new:
        yield f"the provider {provider}"
    elif provider.bootstrap_servers != settings.SLUICE_KAFKA_BOOTSTRAP:
        # The servers of `make run` have taken another port.
        provider.bootstrap_servers = settings.SLUICE_KAFKA_BOOTSTRAP
        provider.save()
        yield f"the provider {provider} point at {provider.bootstrap_servers}"
    yield from _systems()
    yield from outbound.endpoints()
    for fields in STRUCTURES:
        if not ObjectStructure.objects.filter(name=fields["name"]).exists():
            structure = ObjectStructure(**fields)
            structure.full_clean()
            structure.save()
            yield f"the object structure {structure}"
    for interface, description, more in SERVICES:
        structure_name = more.get("structure")
        row, is_new = EnterpriseService.objects.get_or_create(
            interface=interface,
            defaults={
                "description": description,
                "enabled": more.get("enabled", True),
                "structure": structure_name and ObjectStructure.objects.get(name=structure_name),
            },
        )
        if is_new:
            yield f"the enterprise service {row}"


def _systems() -> Iterator[str]:
    for name, description in SYSTEMS:
        system, is_new = ExternalSystem.objects.get_or_create(
            name=name, defaults={"description": description}
        )
        if is_new:
            yield f"the external system {system}"


def _queues() -> Iterator[tuple[str, int, dict[str, Any]]]:
    """Name, partitions and fields, in an order in which each finds what it needs."""
    yield from _sequential_queues()
    yield from _continuous_queues()
    yield (
        names.RECEIPTS,
        MAINTENANCE_PARTITIONS,
        {
            "description": "Confirmations of approved orders, for the ERP",
            "direction": Queue.Direction.OUTBOUND,
            "kind": Queue.Kind.CONTINUOUS,
            "start_from": Queue.StartFrom.END,
        },
    )
    yield from outbound.queues()


def _sequential_queues() -> Iterator[tuple[str, int, dict[str, Any]]]:
    yield (
        names.ASSETS,
        1,
        {
            **INBOUND,
            "description": "Assets in strict order: a failure stops what is behind it",
            "kind": Queue.Kind.SEQUENTIAL,
            "max_retries": 2,
            "retry_delay_seconds": 5,
        },
    )
    yield (
        names.ERRORS,
        1,
        {
            **INBOUND,
            "description": "What the maintenance queue gave up, for people",
            "kind": Queue.Kind.SEQUENTIAL,
            "is_error_queue": True,
        },
    )


def _continuous_queues() -> Iterator[tuple[str, int, dict[str, Any]]]:
    yield (
        names.MAINTENANCE,
        MAINTENANCE_PARTITIONS,
        {
            **INBOUND,
            "description": "Orders, meter readings and locations: failures wait, others go on",
            "kind": Queue.Kind.CONTINUOUS,
            "error_queue": lambda: Queue.objects.get(name=names.ERRORS),
            "max_retries": 3,
            "retry_delay_seconds": 8,
        },
    )
    yield (
        names.STOCK,
        1,
        {
            **INBOUND,
            "description": "Stock levels of the depots, whose terminals have their moods",
            "kind": Queue.Kind.CONTINUOUS,
            "max_retries": 2,
            "retry_delay_seconds": 6,
            "crash_limit": 1,
        },
    )


def _topic(provider: Provider, topic: str, partitions: int) -> None:
    retention = {"retention.ms": str(RETENTION_SECONDS * 1_000)}
    admin.create_topic(provider, topic, partitions=partitions, settings=retention)
    _wait_until_known(provider, topic)


def _wait_until_known(provider: Provider, topic: str) -> None:
    until = time.monotonic() + TOPIC_READY_SECONDS
    while True:
        try:
            admin.describe(provider, topic)
            return
        except TopicUnknownError:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)


def _queue(provider: Provider, system: ExternalSystem, **fields: Any) -> None:  # noqa: ANN401 - columns
    values = {name: value() if callable(value) else value for name, value in fields.items()}
    queue = Queue(provider=provider, system=system, retention_seconds=RETENTION_SECONDS, **values)
    queue.full_clean()
    registration.check(queue)
    with transaction.atomic():
        queue.save()
        if queue.direction == Queue.Direction.INBOUND or queue.endpoint is not None:
            registration.register(queue)
