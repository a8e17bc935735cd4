"""Nouns of the set-up pages: providers, systems, endpoints, services, structures, their uses."""

from dataclasses import dataclass
from typing import Any, Final

from django.db.models import CharField, Count, IntegerField, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Cast, Coalesce

from integration.counting import so_many
from integration.endpoints.properties import forwards
from integration.models import (
    ConfigurationChange,
    ConnectionFactory,
    Endpoint,
    EnterpriseService,
    EventSubscription,
    ExternalSystem,
    MaskingRule,
    MessageError,
    ObjectStructure,
    Provider,
    Queue,
    StoredObject,
)
from integration.models.forwards import target_of
from integration.policy.states import ErrorState
from integration.selectors.failures.failures import FailureFilter
from integration.selectors.queues.queues import overview
from integration.selectors.queues.rows import QueueRow
from integration.selectors.scope import EVERYTHING, Scope
from integration.selectors.setup import takers

# Documents are counted no further: a page does not wait for a large table.
DOCUMENTS_CAP: Final = 10_000


@dataclass(frozen=True, slots=True)
class Use:
    """Something that depends on a row: its kind (the model's name), number and name, and how."""

    kind: str
    number: int
    name: str
    how: str


def providers(_scope: Scope = EVERYTHING) -> QuerySet[Provider]:
    """Every provider with its number of queues; all people share them."""
    return Provider.objects.annotate(queue_count=Count("queues")).order_by("name")


def kafka_providers() -> QuerySet[Provider]:
    """The providers that are Kafka clusters."""
    return Provider.objects.filter(kind=Provider.Kind.KAFKA).order_by("name")


def connections(_scope: Scope = EVERYTHING) -> QuerySet[ConnectionFactory]:
    """Every connection factory; all people share them."""
    return ConnectionFactory.objects.select_related("provider").order_by("name")


def systems(scope: Scope = EVERYTHING) -> QuerySet[ExternalSystem]:
    """The external systems of this scope, with queues, endpoints and held messages counted."""
    held = _counted(
        MessageError.objects.filter(queue__system=OuterRef("pk"), state=ErrorState.HOLD),
        "queue__system",
    )
    queues = _counted(Queue.objects.filter(system=OuterRef("pk")), "system")
    return (
        ExternalSystem.objects.filter(scope.within("pk"))
        .annotate(held_count=held, queue_count=queues, changed_at=_last_change("externalsystem"))
        .order_by("name")
    )


def endpoints(scope: Scope = EVERYTHING) -> QuerySet[Endpoint]:
    """The endpoints of this scope's systems."""
    rows = Endpoint.objects.filter(scope.within("system"))
    return rows.select_related("system").order_by("name")


def structures(_scope: Scope = EVERYTHING) -> QuerySet[ObjectStructure]:
    """Every object structure with the number of services that store into it."""
    return ObjectStructure.objects.annotate(service_count=Count("services")).order_by("name")


def masking_rules(_scope: Scope = EVERYTHING) -> QuerySet[MaskingRule]:
    """Every masking rule with its limits; all people are under the same."""
    return MaskingRule.objects.select_related("system", "queue", "service", "structure").order_by(
        "name"
    )


def event_subscriptions(_scope: Scope = EVERYTHING) -> QuerySet[EventSubscription]:
    """Every subscription to events; all people share them."""
    return EventSubscription.objects.select_related("channel", "system").order_by("name")


def documents_of(structure: ObjectStructure) -> int:
    """Count the documents stored under it, deletions that are remembered left out.

    Counts no further than DOCUMENTS_CAP + 1.
    """
    stored = StoredObject.objects.filter(structure=structure)
    present = stored.filter(Q(document__isnull=False) | ~Q(xml=""))
    return present.order_by()[: DOCUMENTS_CAP + 1].count()


def uses_of_provider(provider: Provider, scope: Scope) -> list[Use]:
    queues = provider.queues.filter(scope.within("system"))
    read = [_queue(queue, f"{queue.direction}, {_place(queue, provider)}") for queue in queues]
    known = Endpoint.objects.filter(scope.within("system"), properties__provider=provider.name)
    written = [
        Use("endpoint", one.pk, one.name, f"forwards to the topic {target_of(one)[1]}")
        for one in known
        if forwards(one.endpoint_type)
    ]
    looked_up = [
        Use("connection", one.pk, one.name, "connections of applications")
        for one in provider.factories.order_by("name")
    ]
    return read + written + looked_up


def _place(queue: Queue, provider: Provider) -> str:
    """Say what a queue reads, so that two of one JMS address are told apart."""
    if not provider.is_jms:
        return f"topic {queue.topic}"
    own = f", subscription {queue.subscription}" if queue.subscription else ""
    chosen = f", selector {queue.selector}" if queue.selector else ""
    return f"JMS address {queue.topic}{own}{chosen}"


def uses_of_system(system: ExternalSystem, _scope: Scope) -> list[Use]:
    queues = [_queue(queue, f"{queue.direction} queue") for queue in system.queues.all()]
    ends = [Use("endpoint", e.pk, e.name, "endpoint") for e in system.endpoints.all()]
    targets = [
        Use("channeltarget", t.pk, str(t), "gets the channel's messages")
        for t in system.targets.select_related("channel")
    ]
    return queues + ends + targets + _masked_by(system) + _subscribed(system)


def uses_of_service(service: EnterpriseService, scope: Scope) -> list[Use]:
    queues = service.default_of.filter(scope.within("system"))
    taken = [_queue(queue, "takes what names no service on it") for queue in queues]
    return taken + _masked_by(service)


def uses_of_structure(structure: ObjectStructure, scope: Scope) -> list[Use]:
    """The services that store into it, the channels it judges; its documents are told apart.

    Services that others alone may know of are told as a number.
    """
    services = [
        Use("enterpriseservice", service.pk, service.interface, "stores its messages here")
        for service in takers.services(scope).filter(structure=structure)
    ]
    if hidden := structure.services.count() - len(services):
        services.append(
            Use("", 0, so_many(hidden, "service"), "of systems that are hidden from you")
        )
    channels = [
        Use("publishchannel", channel.pk, channel.name, "has its payloads judged by it")
        for channel in structure.channels.all()
    ]
    return services + channels + _masked_by(structure)


def _masked_by(row: ExternalSystem | EnterpriseService | ObjectStructure) -> list[Use]:
    return [
        Use("maskingrule", rule.pk, rule.name, "hides values of its messages")
        for rule in row.masking_rules.all()
    ]


def _subscribed(system: ExternalSystem) -> list[Use]:
    return [
        Use("eventsubscription", one.pk, one.name, "publishes its events")
        for one in system.event_subscriptions.all()
    ]


def queues_of_system(system: ExternalSystem) -> list[QueueRow]:
    """The system's queues with how they stand, as the overview shows them."""
    return overview(scope=Scope(frozenset({system.pk})))


def number_in(value: object) -> int | None:
    """The number of a row as a form holds it; None for anything else."""
    text = str(value)
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else None


def chosen(rows: QuerySet[Any], value: object) -> Any:
    """The one of these rows whose number a form holds; None for anything else."""
    number = number_in(value)
    return None if number is None else rows.filter(pk=number).first()


def stopped_with_system(system: ExternalSystem) -> str:
    """Say what switching it off stops, as a sentence with counts."""
    inbound = system.queues.filter(direction=Queue.Direction.INBOUND)
    kinds = list(inbound.values_list("kind", flat=True))
    waiting = sum(kind == Queue.Kind.SEQUENTIAL for kind in kinds)
    holding = len(kinds) - waiting
    if not kinds:
        return "nothing: it has no inbound queue."
    return (
        f"{so_many(len(kinds), 'inbound queue')}: {waiting} sequential will wait at the next "
        f"message, {holding} continuous will put each new message on hold. No retry is spent, "
        "nothing is lost, and what is already on hold stays there."
    )


def stopped_with_service(service: EnterpriseService) -> str:
    """Say what switching it off stops, as a sentence with counts."""
    queues = service.default_of.count()
    return (
        f"Its messages on every queue ({so_many(queues, 'queue')} "
        f"{'has' if queues == 1 else 'have'} it as the default): sequential queues wait at the "
        "next one, continuous ones put each on hold. No retry is spent, nothing is lost."
    )


def held_with_system(system: ExternalSystem) -> FailureFilter:
    """The messages that were put on hold because it was off."""
    return FailureFilter(state=ErrorState.HOLD, code="SYSTEM_DISABLED", system=system.name)


def held_with_service(service: EnterpriseService) -> FailureFilter:
    """The messages that were put on hold because it was off."""
    return FailureFilter(
        state=ErrorState.HOLD, code="SERVICE_DISABLED", interface=service.interface
    )


def _queue(queue: Queue, how: str) -> Use:
    return Use("queue", queue.pk, queue.name, how)


def _counted(rows: QuerySet[Any], by: str) -> Coalesce:
    """The number of `rows` that refer to the outer row, as a column."""
    counted = rows.order_by().values(by).annotate(n=Count("pk")).values("n")
    return Coalesce(Subquery(counted, output_field=IntegerField()), 0)


def _last_change(kind: str) -> Subquery:
    """Return the time of the outer row's last change, as a column."""
    number = Cast(OuterRef("pk"), CharField())
    changes = ConfigurationChange.objects.filter(kind=kind, subject=number)
    return Subquery(changes.order_by("-at", "-id").values("at")[:1])
