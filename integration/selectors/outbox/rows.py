"""Outbox rows as people see them: by filter, a page at a time, one row, and relays in doubt."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from django.db.models import BooleanField, Count, ExpressionWrapper, F, Max, Min, Q, QuerySet

from integration.models import OutboxChange, OutboxRow, Queue, RelayLease
from integration.models.outbox import of_lease
from integration.policy.states import OutboxState
from integration.selectors.failures.account import Account
from integration.selectors.outbox.shards import lease_of, leases_of
from integration.selectors.outbox.words import Place, account
from integration.selectors.paging import PAGE_ROWS, Page, capped_count
from integration.selectors.scope import EVERYTHING, Scope
from integration.store.sessions import database_now

COUNT_CAP: Final = 10_000
CHANGES: Final = 20
# Rows that are over have no index of their own, and history is no list to work on.
OPEN_STATES: Final = (OutboxState.DEAD, OutboxState.PENDING, OutboxState.STAMPED)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxFilter:
    """The filter of a list: one open state; every other text must match exactly.

    `queue` is an outbound queue's name: its topic, or its own rows where it keeps an order.
    """

    state: str = OutboxState.DEAD
    queue: str = ""
    topic: str = ""
    code: str = ""
    kind: str = ""
    message_id: str = ""
    scope: Scope = EVERYTHING

    @property
    def is_default(self) -> bool:
        return self == OutboxFilter(scope=self.scope)


@dataclass(frozen=True, slots=True)
class OutboxLine:
    """One line of the list: the row without its payload, and its story."""

    row: OutboxRow
    account: Account


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """A batch of which nobody knows whether it is in Kafka.

    `relay` is the provider's name, and where there are several shards also the number of this one.
    """

    lease_id: int
    relay: str
    provider: str
    since: datetime
    text: str
    batch: UUID | None
    count: int
    first: int | None
    last: int | None
    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OutboxDetail:
    """Everything the page of one row shows."""

    row: OutboxRow
    account: Account
    behind: int
    changes: tuple[OutboxChange, ...]


def within(scope: Scope) -> Q:
    """The rows a person may know of and their changes: for topics of queues they may know of.

    One query for a limited person.
    """
    if scope.is_whole:
        return Q()
    topics = Queue.objects.filter(scope.within("system")).values_list("provider", "topic")
    either = Q(pk=None)
    for provider, topic in topics:
        either |= Q(provider=provider, topic=topic)
    return either


def known_of(ids: Iterable[int], scope: Scope) -> set[int]:
    """Those of the rows that the person may know of; those that are gone stay named."""
    numbers = set(ids)
    if scope.is_whole:
        return numbers
    hidden = OutboxRow.objects.filter(pk__in=numbers).exclude(within(scope))
    return numbers - set(hidden.values_list("pk", flat=True))


def page(
    filters: OutboxFilter, after: int | None = None, size: int = PAGE_ROWS
) -> Page[OutboxLine, int]:
    """The rows behind the id `after`, in the order of sending, in at most five queries.

    Without payloads.
    """
    matching = _matching(filters)
    at = matching if after is None else matching.filter(pk__gt=after)
    # Dead rows have an index in this order. For the others a sum keeps the planner from looking
    # for them along the primary key, through all that was ever sent.
    order = F("pk") if filters.state == OutboxState.DEAD else F("pk") + 0
    fetched = list(_with_time(at).order_by(order).defer("value", "headers")[: size + 1])
    rows = fetched[:size]
    return Page(
        rows=tuple(OutboxLine(row, account(row, place)) for row, place in _placed(rows)),
        count=capped_count(matching, COUNT_CAP),
        cap=COUNT_CAP,
        next_after=rows[-1].pk if len(fetched) > size else None,
    )


def selection(filters: OutboxFilter, limit: int = COUNT_CAP) -> dict[int, UUID | None]:
    """The dead rows that match, oldest first, with the batch each is dead under."""
    dead = _matching(filters).filter(state=OutboxState.DEAD).order_by("pk")
    return dict(dead.values_list("pk", "batch")[:limit])


def as_now(ids: list[int]) -> dict[int, UUID | None]:
    """Those of the rows that exist, with their batch at this moment."""
    return dict(OutboxRow.objects.filter(pk__in=ids).values_list("pk", "batch"))


def detail(row_id: int, scope: Scope = EVERYTHING) -> OutboxDetail | None:
    """One row with its history, or None when there is none (any more)."""
    row = _with_time(OutboxRow.objects.filter(within(scope), pk=row_id)).first()
    if row is None:
        return None
    [(_, place)] = _placed([row])
    about = Q(row=row_id)
    if row.batch is not None:
        about |= Q(row=None, batch=row.batch)
    return OutboxDetail(
        row=row,
        account=account(row, place),
        behind=_behind(row) if row.state == OutboxState.DEAD else 0,
        changes=tuple(OutboxChange.objects.filter(about)),
    )


def doubts(scope: Scope = EVERYTHING) -> list[Doubt]:
    """Every relay that waits for a person's word, the longest first.

    A relay is shared by all partners, so a limited person is not asked.
    """
    if not scope.is_whole:
        return []
    leases = RelayLease.objects.filter(in_doubt_since__isnull=False).select_related("provider")
    return [_doubt(lease) for lease in leases.order_by("in_doubt_since")]


def dead_count() -> int:
    """Count the rows Kafka refused, no further than the cap."""
    return capped_count(OutboxRow.objects.filter(state=OutboxState.DEAD), COUNT_CAP)


def recent_changes(scope: Scope = EVERYTHING, limit: int = CHANGES) -> list[OutboxChange]:
    """The last decisions about the outbox, newest first."""
    return list(OutboxChange.objects.filter(within(scope)).select_related("provider")[:limit])


def dead_codes(scope: Scope = EVERYTHING, limit: int = 50) -> list[str]:
    """List why rows are dead, for a filter."""
    dead = OutboxRow.objects.filter(within(scope), state=OutboxState.DEAD).order_by("dead_code")
    return list(dead.values_list("dead_code", flat=True).distinct()[:limit])


def _with_time(rows: QuerySet[OutboxRow]) -> QuerySet[OutboxRow]:
    """With what the story of a row needs; its time is judged by the database's clock."""
    later = Q(not_before__isnull=False) & Q(not_before__gt=database_now())
    return rows.select_related("provider").annotate(
        is_later=ExpressionWrapper(later, output_field=BooleanField())
    )


def _matching(filters: OutboxFilter) -> QuerySet[OutboxRow]:
    state = filters.state if filters.state in OPEN_STATES else OutboxState.DEAD
    exact = {
        "topic": filters.topic,
        "dead_code": filters.code,
        "kind": filters.kind,
        "message_id": filters.message_id,
    }
    rows = OutboxRow.objects.filter(
        within(filters.scope), state=state, **{name: text for name, text in exact.items() if text}
    )
    return rows.filter(_of_queue(filters.queue)) if filters.queue else rows


def _of_queue(name: str) -> Q:
    queue = Queue.objects.filter(name=name, direction=Queue.Direction.OUTBOUND).first()
    if queue is None:
        return Q(pk=None)
    return Q(strict_queue=queue.pk) | Q(provider=queue.provider_id, topic=queue.topic)


def _placed(rows: list[OutboxRow]) -> list[tuple[OutboxRow, Place]]:
    """Each row with what it waits for, in three queries for all."""
    strict = {row.strict_queue for row in rows if row.strict_queue is not None}
    names = dict(Queue.objects.filter(pk__in=strict).values_list("pk", "name"))
    dead = OutboxRow.objects.filter(state=OutboxState.DEAD, strict_queue__in=strict)
    firsts = dead.order_by().values_list("strict_queue", "provider", "topic").annotate(Min("pk"))
    heads = {(queue, provider, topic): head for queue, provider, topic, head in firsts}
    leases = leases_of({row.provider_id for row in rows})
    return [
        (
            row,
            Place(
                queue=names.get(row.strict_queue or 0, ""),
                head=heads.get((row.strict_queue, row.provider_id, row.topic)),
                lease=lease_of(leases, row.provider, row.topic),
                is_later=getattr(row, "is_later", False),
            ),
        )
        for row in rows
    ]


def _behind(row: OutboxRow) -> int:
    """Count the rows that a dead one of a strict queue holds back, to the cap."""
    if row.strict_queue is None:
        return 0
    waiting = OutboxRow.objects.filter(
        provider=row.provider_id,
        shard=0,
        state=OutboxState.PENDING,
        strict_queue=row.strict_queue,
        topic=row.topic,
    )
    return capped_count(waiting, COUNT_CAP)


def _doubt(lease: RelayLease) -> Doubt:
    stamped = of_lease(lease).filter(state=OutboxState.STAMPED).order_by()
    sums = stamped.values("batch").annotate(count=Count("pk"), first=Min("pk"), last=Max("pk"))
    of = sums.order_by("batch").first() or {"batch": None, "count": 0, "first": None, "last": None}
    assert lease.in_doubt_since is not None  # noqa: S101 - the caller has filtered
    name = lease.provider.name
    return Doubt(
        lease_id=lease.pk,
        relay=name if lease.provider.shards == 1 and not lease.shard else f"{name}/{lease.shard}",
        provider=name,
        since=lease.in_doubt_since,
        text=lease.in_doubt_text,
        topics=tuple(sorted(set(stamped.values_list("topic", flat=True)))),
        **of,
    )
