"""Endpoints as people watch them: how each stands, what waits for it, and its page."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.db.models import Q
from django.utils import timezone

from integration.models import (
    ChannelTarget,
    Delivery,
    Endpoint,
    EndpointCircuit,
    EndpointTest,
    Queue,
    QueuePartition,
)
from integration.policy.states import CircuitState
from integration.selectors.delivering import figures, open_calls
from integration.selectors.delivering.figures import DAY, NEWEST_CALLS, QUARTER, Outcome, Window
from integration.selectors.delivering.open_calls import Open
from integration.selectors.delivering.standing import Circuit, Standing, Switches, Told, told
from integration.selectors.scope import EVERYTHING, Scope

ANSWERS_SHOWN: Final = 12
TESTS_SHOWN: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointRow:
    """One endpoint in the list. `waiting` counts messages in Kafka, None when nobody looked."""

    id: int
    name: str
    system: str
    system_id: int
    type: str
    handler_type: str
    enabled: bool
    paused_until: datetime | None
    idempotent: bool
    circuit: Circuit
    told: Told
    waiting: int | None
    open: Open
    quarter: Window
    queues: tuple[str, ...]

    @property
    def standing(self) -> Standing:
        return self.told.standing

    @property
    def is_paused(self) -> bool:
        return self.standing is Standing.PAUSED


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """A queue that sends to the endpoint, with the channels by which it does; none: all it has."""

    queue: str
    is_own: bool
    channels: tuple[str, ...]
    waiting: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointDetail:
    """Everything the page of one endpoint shows."""

    endpoint: Endpoint
    row: EndpointRow
    day: Window
    outcomes: tuple[Outcome, ...]
    answers: tuple[Delivery, ...]
    uses: tuple[Use, ...]
    tests: tuple[EndpointTest, ...]


def standing(scope: Scope = EVERYTHING) -> list[EndpointRow]:
    """Every endpoint a person may know of, the most urgent first; six queries."""
    found = Endpoint.objects.filter(scope.within("system"))
    return sorted(rows(found), key=lambda row: (row.standing.rank, row.name))


def rows(found: Iterable[Endpoint]) -> list[EndpointRow]:
    """These endpoints as they stand now. `found` may be a query of endpoints."""
    endpoints = list(
        Endpoint.objects.filter(pk__in=[one.pk for one in found]).select_related(
            "system", "circuit"
        )
    )
    ids = [endpoint.pk for endpoint in endpoints]
    uses = _queues_of(ids)
    lags = _lags({queue for used in uses.values() for queue in used})
    recent, calls, now = figures.windows(ids, QUARTER), open_calls.counts(), timezone.now()
    made = []
    for endpoint in endpoints:
        used = uses.get(endpoint.pk, {})
        waiting = _sum(lags.get(queue) for queue in used)
        circuit = _circuit(endpoint)
        made.append(
            EndpointRow(
                id=endpoint.pk,
                name=endpoint.name,
                system=endpoint.system.name,
                system_id=endpoint.system_id,
                type=endpoint.get_handler_type_display(),
                handler_type=endpoint.handler_type,
                enabled=endpoint.enabled,
                paused_until=endpoint.paused_until,
                idempotent=endpoint.idempotent,
                circuit=circuit,
                told=told(circuit, _switches(endpoint, is_used=bool(used)), waiting, now),
                waiting=waiting,
                open=calls.of_endpoint(endpoint.pk),
                quarter=recent.get(endpoint.pk, Window(seconds=QUARTER.total_seconds())),
                queues=tuple(sorted(used.values())),
            )
        )
    return made


def id_of(name: str, scope: Scope = EVERYTHING) -> int | None:
    """The endpoint of this name, or None."""
    found = Endpoint.objects.filter(scope.within("system"), name=name)
    return found.values_list("pk", flat=True).first()


def detail(name: str, scope: Scope = EVERYTHING, *, reveal: bool) -> EndpointDetail | None:
    """One endpoint with its figures, answers, uses and tests.

    Without `reveal` the excerpts of answers are left out: they may repeat payloads.
    """
    endpoint = (
        Endpoint.objects.select_related("system", "circuit")
        .filter(scope.within("system"), name=name)
        .first()
    )
    if endpoint is None:
        return None
    [row] = rows([endpoint])
    day = figures.windows([endpoint.pk], DAY, NEWEST_CALLS)
    answers = (
        Delivery.objects.filter(endpoint=endpoint.pk, ended_at__isnull=False)
        .select_related("queue")
        .order_by("-ended_at")
    )
    hidden = answers if reveal else answers.defer("excerpt")
    return EndpointDetail(
        endpoint=endpoint,
        row=row,
        day=day.get(endpoint.pk, Window(seconds=DAY.total_seconds())),
        outcomes=tuple(figures.outcomes(endpoint.pk, DAY)),
        answers=tuple(hidden[:ANSWERS_SHOWN]),
        uses=_uses(endpoint),
        tests=tuple(endpoint.tests.all()[:TESTS_SHOWN]),
    )


def of_queue(queue: Queue) -> list[EndpointRow]:
    """The endpoints that messages of this queue may go to, by name."""
    own = Q(pk=queue.endpoint_id) if queue.endpoint_id else Q(pk__in=[])
    found = Endpoint.objects.filter(own | Q(targets__queue=queue)).distinct()
    return sorted(rows(found), key=lambda row: row.name)


def of_queues(queues: Sequence[int]) -> list[EndpointRow]:
    """The endpoints that messages of these queues go to, by name."""
    named = Q(queues__in=queues) | Q(targets__queue__in=queues)
    return sorted(rows(Endpoint.objects.filter(named).distinct()), key=lambda row: row.name)


def _circuit(endpoint: Endpoint) -> Circuit:
    try:
        row = endpoint.circuit
    except EndpointCircuit.DoesNotExist:
        return Circuit()
    return Circuit(
        state=CircuitState(row.state),
        failures=row.failures,
        probes=row.probes,
        opened_at=row.opened_at,
        resume_at=row.resume_at,
        code=row.code,
        text=row.text,
    )


def _switches(endpoint: Endpoint, *, is_used: bool) -> Switches:
    return Switches(
        enabled=endpoint.enabled,
        system=endpoint.system.name,
        system_enabled=endpoint.system.enabled,
        paused_until=endpoint.paused_until,
        is_used=is_used,
    )


def _queues_of(endpoints: Sequence[int]) -> Mapping[int, dict[int, str]]:
    """Endpoint -> queue -> name, of queues of their own and of targets; two queries."""
    found: dict[int, dict[int, str]] = defaultdict(dict)
    own = Queue.objects.filter(endpoint__in=endpoints, direction=Queue.Direction.OUTBOUND)
    for endpoint, pk, name in own.order_by().values_list("endpoint", "pk", "name"):
        found[endpoint][pk] = name
    targets = ChannelTarget.objects.filter(endpoint__in=endpoints).order_by()
    for endpoint, pk, name in targets.values_list("endpoint", "queue", "queue__name"):
        found[endpoint][pk] = name
    return found


def _lags(queues: Iterable[int]) -> Mapping[int, int]:
    found: dict[int, int] = defaultdict(int)
    for place in QueuePartition.objects.filter(queue__in=list(queues)):
        if place.lag is not None:
            found[place.queue_id] += place.lag
    return found


def _sum(lags: Iterable[int | None]) -> int | None:
    """What waits in all; 0 for no queue, None where nobody has looked at any of them."""
    known = list(lags)
    if not known:
        return 0
    looked = [lag for lag in known if lag is not None]
    return sum(looked) if looked else None


def _uses(endpoint: Endpoint) -> tuple[Use, ...]:
    channels: dict[int, list[str]] = defaultdict(list)
    for target in endpoint.targets.select_related("channel"):
        channels[target.queue_id].append(target.channel.name)
    own = Q(endpoint=endpoint, direction=Queue.Direction.OUTBOUND)
    queues = list(Queue.objects.filter(own | Q(pk__in=channels)).order_by("name"))
    lags = _lags([queue.pk for queue in queues])
    return tuple(
        Use(
            queue=queue.name,
            is_own=queue.endpoint_id == endpoint.pk,
            channels=tuple(channels.get(queue.pk, ())),
            waiting=lags.get(queue.pk),
        )
        for queue in queues
    )
