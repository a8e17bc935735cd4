"""Bulk operations as people see them: the list, how far one is, and what became of each message."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Final, NamedTuple
from uuid import UUID

from django.db.models import Q

from integration.models import Operation, Queue
from integration.policy.operations import Became, ItemOutcome, seconds_left
from integration.policy.states import OperationState
from integration.selectors.failures.failures import Cursor
from integration.selectors.failures.lines import KEY_BYTES, key_text
from integration.selectors.operations import large
from integration.selectors.scope import Scope, visible_operations
from integration.store.sessions import fetch_all

PAGE_ROWS: Final = 25
ITEM_ROWS: Final = 25
CAUSES: Final = 20
QUEUES: Final = 3
RATE_SECONDS: Final = 5

# What became of a message that the operation has done, over an item `i` and its failure `e`. The
# engine settles after the operation's commit: a later failure is one of the attempt it led to.
_BECAME: Final = f"""
CASE WHEN i.outcome <> '{ItemOutcome.DONE}' THEN ''
     WHEN e.id IS NULL THEN '{Became.GONE}'
     WHEN e.state = 'RESOLVED' THEN '{Became.RESOLVED}'
     WHEN e.state IN ('HOLD', 'RETRY') AND e.last_failed_at > i.at THEN '{Became.FAILED}'
     WHEN e.state IN ('READY', 'RETRY', 'PROCESSING') THEN '{Became.WAITING}'
     WHEN e.version = i.version_after THEN '{Became.KEPT}'
     ELSE '{Became.MOVED}' END
"""
_JOINED: Final = """
FROM integration_operationitem i LEFT JOIN integration_messageerror e ON e.id = i.error_id
"""
_PROGRESS: Final = f"""
SELECT i.outcome, {_BECAME} AS became, count(*),
  count(*) FILTER (WHERE i.at > clock_timestamp() - interval '{RATE_SECONDS} s'),
  clock_timestamp() > %s::timestamptz + interval '{RATE_SECONDS} s',
  count(*) FILTER (WHERE e.ended = 'SUPERSEDED')
{_JOINED} WHERE i.operation_id = %s GROUP BY 1, 2
"""
_SKIPS: Final = """
SELECT outcome, text, count(*) FROM integration_operationitem
WHERE operation_id = %s AND outcome NOT IN ('', 'DONE') GROUP BY 1, 2 ORDER BY 3 DESC LIMIT %s
"""
_CAUSES: Final = f"""
SELECT e.code, e.fingerprint, min(e.text), count(*) {_JOINED}
WHERE i.operation_id = %s AND {_BECAME} = '{Became.FAILED}'
GROUP BY 1, 2 ORDER BY 4 DESC LIMIT %s
"""
_COLUMNS: Final = f"""
SELECT i.place, i.error_id, e.id IS NOT NULL, i.outcome, i.text, {_BECAME} AS became, i.at,
  q.name, e.interface, e.message_id, e.state, e.code, e.text, e.ended,
  substring(e.key from 1 for {KEY_BYTES})
{_JOINED} LEFT JOIN integration_queue q ON q.id = e.queue_id
"""


# Whoever released them: they wait for the same. A few tell where they are.
_RELEASED: Final = """
SELECT q.id, array_agg(DISTINCT few.partition) FROM integration_queue q CROSS JOIN LATERAL (
    SELECT e.partition FROM integration_messageerror e
    WHERE e.queue_id = q.id AND e.state = 'READY' LIMIT 1000) few
WHERE q.id = ANY(%s) GROUP BY q.id ORDER BY q.name LIMIT %s
"""


class Show(StrEnum):
    """Which items a page lists."""

    ALL = ""
    LEFT = "left"
    DONE = "done"
    SKIPPED = "skipped"
    RESOLVED = "resolved"
    FAILED = "failed"
    WAITING = "waiting"


_SHOWN: Final = {
    Show.ALL: "true",
    Show.LEFT: "i.outcome = ''",
    Show.DONE: "i.outcome = 'DONE'",
    Show.SKIPPED: "i.outcome NOT IN ('', 'DONE')",
    Show.RESOLVED: f"{_BECAME} = '{Became.RESOLVED}'",
    Show.FAILED: f"{_BECAME} = '{Became.FAILED}'",
    Show.WAITING: f"{_BECAME} = '{Became.WAITING}'",
}


class Item(NamedTuple):
    """One message of an operation, what was done to it, and how it stands now."""

    place: int
    error: UUID
    is_there: bool
    outcome: str
    text: str
    became: str
    at: datetime | None
    queue: str | None
    interface: str | None
    message_id: str | None
    state: str | None
    code: str | None
    failure: str | None
    ended: str | None
    key_start: bytes | None

    @property
    def number(self) -> int:
        return self.place + 1

    @property
    def key(self) -> str:
        """Of the payload: pages show it by the right to see those."""
        return key_text(self.key_start)


class Skip(NamedTuple):
    """Messages that were left alone, for one reason."""

    outcome: str
    text: str
    messages: int


class Cause(NamedTuple):
    """Messages that failed again, for one cause."""

    code: str
    fingerprint: str
    text: str
    messages: int


@dataclass(slots=True)
class Progress:
    """How far an operation is, and what became of what it has done."""

    total: int
    left: int = 0
    done: int = 0
    skipped: int = 0
    resolved: int = 0
    superseded: int = 0
    failed: int = 0
    waiting: int = 0
    kept: int = 0
    moved: int = 0
    gone: int = 0
    # Messages a second; None before there is anything to tell it by.
    rate: float | None = None
    is_rough: bool = False

    @property
    def percent(self) -> int:
        return 100 if not self.total else 100 * (self.total - self.left) // self.total

    def seconds_left(self, rate: int | None) -> float | None:
        """At the pace of the last seconds, or at the rate that was set; None before either."""
        return seconds_left(self.left, self.rate or rate)


@dataclass(frozen=True, slots=True)
class ItemPage:
    """Items in their order; `after` is where the next page begins, None at the end."""

    items: Sequence[Item] = field(default_factory=list)
    after: int | None = None


@dataclass(frozen=True, slots=True)
class OperationPage:
    """Operations, the newest first; `older` is a cursor or empty."""

    operations: Sequence[Operation]
    older: str


def page(scope: Scope, cursor: Cursor | None = None, *, state: str = "") -> OperationPage:
    """The list, in one query. Operations with a message that is out of scope are not there."""
    found = Operation.objects.filter(visible_operations(scope))
    if state:
        found = found.filter(state=state)
    if cursor is not None:
        before = Q(created_at__lt=cursor.at) | Q(id__gt=cursor.row)
        found = found.filter(before, created_at__lte=cursor.at)
    rows = list(found.order_by("-created_at", "id")[: PAGE_ROWS + 1])
    shown, has_older = rows[:PAGE_ROWS], len(rows) > PAGE_ROWS
    older = str(Cursor(shown[-1].created_at, shown[-1].pk)) if has_older else ""
    return OperationPage(shown, older)


def one(operation_id: UUID, scope: Scope) -> Operation | None:
    """An operation, or None when there is none that the person may know of."""
    found = Operation.objects.select_related("retry_of").filter(visible_operations(scope))
    return found.filter(pk=operation_id).first()


def progress(operation: Operation) -> Progress:
    """One query through all items and their failures; of large operations a rough one."""
    if large.is_large(operation):
        return _rough(operation)
    found = Progress(operation.total)
    recent, has_pace = 0, False
    began = operation.stop_from or operation.started_at
    rows = fetch_all(_PROGRESS, [began, operation.pk])
    for outcome, became, count, late, is_settled, superseded in rows:
        recent, has_pace = recent + late, is_settled and operation.state == OperationState.RUNNING
        name = _FIELD[Became(became)] if became else ""
        if not outcome:
            found.left += count
        elif outcome == ItemOutcome.DONE:
            found.done += count
            setattr(found, name, count)
            found.superseded += superseded if became == Became.RESOLVED else 0
        else:
            found.skipped += count
    found.rate = recent / RATE_SECONDS if has_pace else None
    return found


_FIELD: Final = {became: became.value.lower() for became in Became}


def _rough(operation: Operation) -> Progress:
    found = Progress(operation.total, is_rough=True, done=operation.done)
    found.left = operation.total - operation.handled
    found.skipped = operation.handled - operation.done
    if operation.verb == Operation.Verb.RELEASE:
        found.failed, found.waiting = large.failed(operation), large.waiting(operation)
        found.resolved = max(0, found.done - found.failed - found.waiting)
    else:
        found.kept = found.done
    found.rate = large.pace(operation) if operation.state == OperationState.RUNNING else None
    return found


def skips(operation: Operation) -> list[Skip]:
    """Why messages were left alone."""
    return [Skip(*row) for row in fetch_all(_SKIPS, [operation.pk, CAUSES])]


def failed_causes(operation: Operation) -> list[Cause]:
    """What the messages that failed again failed for."""
    if large.is_large(operation):
        return [Cause(*row) for row in large.failed_causes(operation, CAUSES)]
    return [Cause(*row) for row in fetch_all(_CAUSES, [operation.pk, CAUSES])]


def first_done(operation: Operation) -> Item | None:
    """The first message that the operation has done: how it ends tells how the rest would."""
    condition = "i.outcome = 'DONE' ORDER BY i.place LIMIT 1"
    found = fetch_all(f"{_COLUMNS} WHERE i.operation_id = %s AND {condition}", [operation.pk])
    return Item(*found[0]) if found else None


def items(
    operation_id: UUID, show: Show = Show.ALL, after: int = -1, limit: int = ITEM_ROWS
) -> ItemPage:
    """A page of items, in one query."""
    sql = (
        f"{_COLUMNS} WHERE i.operation_id = %s AND i.place > %s AND {_SHOWN[show]} "
        "ORDER BY i.place LIMIT %s"
    )
    found = [Item(*row) for row in fetch_all(sql, [operation_id, after, limit + 1])]
    more = len(found) > limit
    return ItemPage(found[:limit], found[limit - 1].place if more else None)


def every_item(operation_id: UUID) -> Iterator[Item]:
    """All items for a report, a page at a time."""
    after: int | None = -1
    while after is not None:
        found = items(operation_id, Show.ALL, after, limit=2_000)
        yield from found.items
        after = found.after


def released(operation: Operation) -> list[tuple[Queue, list[int]]]:
    """Some queues of the operation that have released messages, with the partitions of those."""
    found = dict(fetch_all(_RELEASED, [operation.queues, QUEUES]))
    queues = Queue.objects.select_related("system").in_bulk(list(found))
    return [(queues[pk], partitions) for pk, partitions in found.items() if pk in queues]


def again(operation: Operation, show: Show) -> dict[UUID, int]:
    """The failed or the skipped part as it stands now, to be frozen by an operation of its own."""
    sql = (
        f"SELECT e.id, e.version {_JOINED} WHERE i.operation_id = %s AND {_SHOWN[show]} "
        "AND e.id IS NOT NULL AND e.state = 'HOLD' ORDER BY i.place"
    )
    return dict(fetch_all(sql, [operation.pk]))
