"""Endpoints as people watch them: how each stands, what waits for it, and its page."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from django.db.models import Q
from django.utils import timezone

from integration.endpoints.properties import forwards
from integration.models import (
    ChannelTarget,
    Delivery,
    Endpoint,
    EndpointCircuit,
    EndpointTest,
    Queue,
    QueuePartition,
)
from integration.models.ledgers import has_ledger, sharing
from integration.selectors.delivering import figures, open_calls
from integration.selectors.delivering.figures import DAY, NEWEST_CALLS, QUARTER, Outcome, Window
from integration.selectors.delivering.open_calls import Open
from integration.selectors.delivering.standing import Standing, judge
from integration.selectors.masking.calls import cover_calls
from integration.selectors.queues.status import Situation
from integration.selectors.scope import EVERYTHING, Scope

ANSWERS_SHOWN: Final = 12
TESTS_SHOWN: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointRow:
    """One endpoint in the list. `waiting`: what its queues have not read; None: not known."""

    endpoint: Endpoint
    standing: Standing
    situation: Situation
    waiting: int | None
    open: Open
    quarter: Window
    queues: tuple[str, ...]
    # Others that keep ids in the same ledger, for another place.
    shares_ledger: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.endpoint.name

    @property
    def endpoint_type(self) -> str:
        return self.endpoint.get_endpoint_type_display()

    @property
    def forwards(self) -> bool:
        """Return whether it is another topic: no call is made, and there are no answers."""
        return forwards(self.endpoint.endpoint_type)

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

    row: EndpointRow
    day: Window
    outcomes: list[Outcome]
    answers: list[Delivery]
    uses: list[Use]
    # More queues that send to it, which the person may not know of.
    hidden_uses: int
    tests: list[EndpointTest]


def standing(scope: Scope = EVERYTHING) -> list[EndpointRow]:
    """Every endpoint a person may know of, the most urgent first; six queries."""
    endpoints = Endpoint.objects.filter(scope.within("system"))
    return sorted(rows(endpoints, scope), key=lambda row: (row.standing.rank, row.name))


def rows(endpoints: Iterable[Endpoint], scope: Scope = EVERYTHING) -> list[EndpointRow]:
    """These endpoints as they stand now. `endpoints` may be a query of endpoints.

    Queues out of the scope count, and are not named.
    """
    ids = [one.pk for one in endpoints]
    uses = _queues_of(ids)
    lags = _lags({queue for used in uses.values() for queue in used})
    recent, calls, now = figures.windows(ids, QUARTER), open_calls.counts(), timezone.now()
    made = []
    listed = list(Endpoint.objects.filter(pk__in=ids).select_related("system", "circuit"))
    shared = _shared_ledgers(listed)
    for endpoint in listed:
        used = uses.get(endpoint.pk, {})
        waiting = _sum(lags.get(queue) for queue in used)
        circuit = getattr(endpoint, "circuit", None) or EndpointCircuit()
        word, situation = judge(endpoint, circuit, waiting, is_used=bool(used), now=now)
        made.append(
            EndpointRow(
                endpoint=endpoint,
                standing=word,
                situation=situation,
                waiting=waiting,
                open=calls.of_endpoint(endpoint.pk),
                quarter=recent[endpoint.pk],
                queues=tuple(sorted(name for name, of in used.values() if scope.allows(of))),
                shares_ledger=shared.get(endpoint.pk, ()),
            )
        )
    return made


def _shared_ledgers(endpoints: Sequence[Endpoint]) -> Mapping[int, tuple[str, ...]]:
    """By endpoint who keeps ids in the same ledger; one query where any has a ledger."""
    types = {one.endpoint_type for one in endpoints if has_ledger(one)}
    return sharing(endpoints, Endpoint.objects.filter(endpoint_type__in=types)) if types else {}


def id_of(name: str, scope: Scope = EVERYTHING) -> int | None:
    """The endpoint of this name, or None."""
    endpoints = Endpoint.objects.filter(scope.within("system"), name=name)
    return endpoints.values_list("pk", flat=True).first()


def detail(name: str, scope: Scope = EVERYTHING, *, reveal: bool) -> EndpointDetail | None:
    """One endpoint with its figures, answers, uses and tests.

    Without `reveal` the excerpts of answers are left out: they may repeat payloads.
    """
    listed = rows(Endpoint.objects.filter(scope.within("system"), name=name), scope)
    if not listed:
        return None
    [row] = listed
    endpoint = row.endpoint
    answers = (
        Delivery.objects.filter(
            scope.within("queue__system"), endpoint=endpoint.pk, ended_at__isnull=False
        )
        .select_related("queue")
        .order_by("-ended_at")
    )
    shown = list((answers if reveal else answers.defer("excerpt"))[:ANSWERS_SHOWN])
    cover_calls(shown)
    uses, hidden = _uses(endpoint, scope)
    return EndpointDetail(
        row=row,
        day=figures.windows([endpoint.pk], DAY, NEWEST_CALLS)[endpoint.pk],
        outcomes=figures.outcomes(endpoint.pk, DAY),
        answers=shown,
        uses=uses,
        hidden_uses=hidden,
        tests=list(endpoint.tests.all()[:TESTS_SHOWN]),
    )


def of_queue(queue: Queue) -> list[EndpointRow]:
    """The endpoints that messages of this queue may go to, by name."""
    own = Q(pk=queue.endpoint_id) if queue.endpoint_id else Q(pk__in=[])
    endpoints = Endpoint.objects.filter(own | Q(targets__queue=queue)).distinct()
    return sorted(rows(endpoints), key=lambda row: row.name)


def of_queues(queues: Sequence[int]) -> list[EndpointRow]:
    """The endpoints that messages of these queues go to, by name."""
    named = Q(queues__in=queues) | Q(targets__queue__in=queues)
    return sorted(rows(Endpoint.objects.filter(named).distinct()), key=lambda row: row.name)


def _queues_of(endpoints: Sequence[int]) -> Mapping[int, dict[int, tuple[str, int | None]]]:
    """Endpoint -> queue -> name and system, of queues of their own and of targets; two queries."""
    found: dict[int, dict[int, tuple[str, int | None]]] = defaultdict(dict)
    own = Queue.objects.filter(endpoint__in=endpoints, direction=Queue.Direction.OUTBOUND)
    columns = ("endpoint", "pk", "name", "system")
    for endpoint, pk, name, system in own.order_by().values_list(*columns):
        found[endpoint][pk] = (name, system)
    targets = ChannelTarget.objects.filter(endpoint__in=endpoints).order_by()
    columns = ("endpoint", "queue", "queue__name", "queue__system")
    for endpoint, pk, name, system in targets.values_list(*columns):
        found[endpoint][pk] = (name, system)
    return found


def _lags(queues: Iterable[int]) -> Mapping[int, int]:
    lags: dict[int, int] = defaultdict(int)
    for place in QueuePartition.objects.filter(queue__in=list(queues)):
        if place.lag is not None:
            lags[place.queue_id] += place.lag
    return lags


def _sum(lags: Iterable[int | None]) -> int | None:
    """Sum what waits in all; 0 for no queue, None where nobody has looked at any of them."""
    values = list(lags)
    if not values:
        return 0
    looked = [lag for lag in values if lag is not None]
    return sum(looked) if looked else None


def _uses(endpoint: Endpoint, scope: Scope) -> tuple[list[Use], int]:
    """The queues of this scope that send to it, and how many others do."""
    channels: dict[int, list[str]] = defaultdict(list)
    for target in endpoint.targets.select_related("channel"):
        channels[target.queue_id].append(target.channel.name)
    own = Q(endpoint=endpoint, direction=Queue.Direction.OUTBOUND)
    every = list(Queue.objects.filter(own | Q(pk__in=channels)).order_by("name"))
    queues = [queue for queue in every if scope.allows(queue.system_id)]
    lags = _lags([queue.pk for queue in queues])
    uses = [
        Use(
            queue=queue.name,
            is_own=queue.endpoint_id == endpoint.pk,
            channels=tuple(channels.get(queue.pk, ())),
            waiting=lags.get(queue.pk),
        )
        for queue in queues
    ]
    return uses, len(every) - len(queues)
