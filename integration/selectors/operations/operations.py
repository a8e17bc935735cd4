"""Operations as people see them: the list, how far one is, and what became of each message."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final, NamedTuple
from uuid import UUID

from django.db.models import Q

from integration.masking.mask import HIDDEN
from integration.models import Operation, Queue
from integration.policy.operations import Became, ItemOutcome
from integration.policy.states import OperationState
from integration.selectors.failures.cause_ids import cause_id
from integration.selectors.failures.failures import Cursor
from integration.selectors.failures.payloads import KEY_BYTES, key_text
from integration.selectors.masking.covers import UNCOVERED, covers_of
from integration.selectors.masking.rules import any_masked
from integration.selectors.scope import Scope, visible_operations
from integration.store.sessions import fetch_all

PAGE_ROWS: Final = 25
CAUSES: Final = 20
QUEUES: Final = 3
RATE_SECONDS: Final = 5
# As many as the console lets one operation have; repairs make larger ones.
MOST_COUNTED: Final = 100_000

# What became of a message that the operation has done, over an item `i` and its failure `e`. The
# engine settles after the operation's commit: a later failure is one of the attempt it led to.
_BECAME: Final = f"""
CASE WHEN i.outcome <> '{ItemOutcome.DONE}' THEN ''
     WHEN e.id IS NULL THEN '{Became.GONE}'
     WHEN e.state = 'RESOLVED' THEN '{Became.RESOLVED}'
     WHEN e.state IN ('HOLD', 'RETRY') AND e.last_failed_at > i.at THEN '{Became.FAILED}'
     WHEN e.state IN ('READY', 'RETRY', 'PARKED', 'PROCESSING') THEN '{Became.WAITING}'
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
# Not by place: what somebody held at its turn comes later.
_LAST_DONE: Final = """
SELECT place FROM integration_operationitem
WHERE operation_id = %s AND outcome = 'DONE' ORDER BY at DESC, place DESC LIMIT 1
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
# Of operations too large to go through: what failed again and what waits is found by the indexes
# of failures, and the operation itself counts what it has done.
_OF_LARGE: Final = """
FROM integration_messageerror e JOIN integration_operationitem i ON i.error_id = e.id
WHERE e.queue_id = ANY(%s) AND i.operation_id = %s AND i.outcome = 'DONE'
"""
_FAILED_OF_LARGE: Final = (
    f"{_OF_LARGE} AND e.state IN ('HOLD', 'RETRY') AND e.last_failed_at > %s "
    "AND e.last_failed_at > i.at"
)
_CAUSES_OF_LARGE: Final = (
    f"SELECT e.code, e.fingerprint, min(e.text), count(*) {_FAILED_OF_LARGE} "
    "GROUP BY 1, 2 ORDER BY 4 DESC LIMIT %s"
)
# Its first seconds tell no pace: a chunk more or less would double it.
_PACE_OF_LARGE: Final = """
SELECT done / extract(epoch FROM clock_timestamp() - started_at)::float8
FROM integration_operation WHERE id = %s AND started_at < clock_timestamp() - interval '5 s'
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
    """One message of an operation, what was done to it, and how it stands now.

    Its key is of the payload: pages show it by the right to see those.
    """

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
    key: str

    @property
    def number(self) -> int:
        return self.place + 1


class Cause(NamedTuple):
    """Messages that failed for one cause."""

    code: str
    fingerprint: str
    text: str
    messages: int


@dataclass(slots=True)
class Progress:
    """The progress of an operation, and what became of what it has done."""

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
        pace = self.rate or rate
        return self.left / pace if pace else None


class ItemPage(NamedTuple):
    """Items in their order; `after` is where the next page begins, None at the end."""

    items: Sequence[Item]
    after: int | None


class OperationPage(NamedTuple):
    """Operations, the newest first; `older` is a cursor or empty."""

    operations: Sequence[Operation]
    older: str


def page(scope: Scope, cursor: Cursor | None = None, *, state: str = "") -> OperationPage:
    """The list, in one query. Operations with a message that is out of scope are not there."""
    matching = Operation.objects.filter(visible_operations(scope))
    if state:
        matching = matching.filter(state=state)
    if cursor is not None:
        before = Q(created_at__lt=cursor.at) | Q(id__gt=cursor.row)
        matching = matching.filter(before, created_at__lte=cursor.at)
    rows = list(matching.order_by("-created_at", "id")[: PAGE_ROWS + 1])
    shown, has_older = rows[:PAGE_ROWS], len(rows) > PAGE_ROWS
    older = str(Cursor(shown[-1].created_at, shown[-1].pk)) if has_older else ""
    return OperationPage(shown, older)


def one(operation_id: UUID, scope: Scope) -> Operation | None:
    """An operation, or None when there is none that the person may know of."""
    visible = Operation.objects.select_related("retry_of").filter(visible_operations(scope))
    return visible.filter(pk=operation_id).first()


def progress(operation: Operation) -> Progress:
    """One query through all items and their failures; of large operations a rough one."""
    if operation.total > MOST_COUNTED:
        return _rough(operation)
    counts = Progress(operation.total)
    recent, has_pace = 0, False
    began = operation.stop_from or operation.started_at
    rows = fetch_all(_PROGRESS, [began, operation.pk])
    for outcome, became, count, late, is_settled, superseded in rows:
        recent, has_pace = recent + late, is_settled and operation.state == OperationState.RUNNING
        if not outcome:
            counts.left += count
        elif outcome == ItemOutcome.DONE:
            counts.done += count
            setattr(counts, Became(became).value.lower(), count)
            counts.superseded += superseded if became == Became.RESOLVED else 0
        else:
            counts.skipped += count
    counts.rate = recent / RATE_SECONDS if has_pace else None
    return counts


def _rough(operation: Operation) -> Progress:
    """All that was released and neither waits nor failed again is taken for resolved."""
    counts = Progress(operation.total, is_rough=True, done=operation.done)
    counts.left = operation.total - operation.handled
    counts.skipped = operation.handled - operation.done
    if operation.verb == Operation.Verb.RELEASE:
        of_it = [operation.queues, operation.pk]
        in_work = f"{_OF_LARGE} AND e.state IN ('READY', 'PARKED', 'PROCESSING')"
        [(counts.failed,)] = fetch_all(
            f"SELECT count(*) {_FAILED_OF_LARGE}", [*of_it, operation.started_at]
        )
        [(counts.waiting,)] = fetch_all(f"SELECT count(*) {in_work}", of_it)
        counts.resolved = max(0, counts.done - counts.failed - counts.waiting)
    else:
        counts.kept = counts.done
    if operation.state == OperationState.RUNNING:
        counts.rate = next((rate for (rate,) in fetch_all(_PACE_OF_LARGE, [operation.pk])), None)
    return counts


def skips(operation: Operation) -> Sequence[tuple[str, str, int]]:
    """Reasons why messages were left alone: an outcome, a text, how many."""
    return fetch_all(_SKIPS, [operation.pk, CAUSES])


def failed_causes(operation: Operation) -> list[Cause]:
    """The causes of the messages that failed again."""
    if operation.total > MOST_COUNTED:
        of_it = [operation.queues, operation.pk, operation.started_at]
        rows = fetch_all(_CAUSES_OF_LARGE, [*of_it, CAUSES])
    else:
        rows = fetch_all(_CAUSES, [operation.pk, CAUSES])
    return told(operation, [Cause(*row) for row in rows])


def told(operation: Operation, causes: list[Cause]) -> list[Cause]:
    """The causes by their ids; of which message an example is, is not known: it may be hidden."""
    shown = [cause._replace(fingerprint=cause_id(cause.fingerprint)) for cause in causes]
    if not shown or not any_masked(operation.queues):
        return shown
    return [cause._replace(text=HIDDEN) for cause in shown]


def last_done(operation: Operation) -> Item | None:
    """The message that the operation has done last: how it ends tells how the rest would."""
    for (place,) in fetch_all(_LAST_DONE, [operation.pk]):
        return next(iter(items(operation.pk, Show.DONE, place - 1, limit=1).items), None)
    return None


def items(
    operation_id: UUID, show: Show = Show.ALL, after: int = -1, limit: int = PAGE_ROWS
) -> ItemPage:
    """A page of items, in one query."""
    sql = (
        f"{_COLUMNS} WHERE i.operation_id = %s AND i.place > %s AND {_SHOWN[show]} "
        "ORDER BY i.place LIMIT %s"
    )
    read = fetch_all(sql, [operation_id, after, limit + 1])
    rows = _covered([Item._make([*columns, key_text(start)]) for *columns, start in read])
    return ItemPage(rows[:limit], rows[limit - 1].place if len(rows) > limit else None)


def _covered(items: list[Item]) -> list[Item]:
    """The same items without what is masked of their messages."""
    found = covers_of([item.error for item in items]) if items else {}
    covered = ((item, found.get(item.error, UNCOVERED)) for item in items)
    return [
        item
        if cover is UNCOVERED
        else item._replace(
            text=cover.text(item.text),
            failure=cover.text(item.failure or "", item.code or ""),
            key=cover.key(item.key),
        )
        for item, cover in covered
    ]


def every_item(operation_id: UUID) -> Iterator[Item]:
    """All items for a report, a page at a time."""
    after: int | None = -1
    while after is not None:
        shown, after = items(operation_id, Show.ALL, after, limit=2_000)
        yield from shown


def released(operation: Operation) -> list[tuple[Queue, list[int]]]:
    """Some queues of the operation that have released messages, with the partitions of those."""
    partitions = dict(fetch_all(_RELEASED, [operation.queues, QUEUES]))
    queues = Queue.objects.select_related("system").in_bulk(list(partitions))
    return [(queues[pk], numbers) for pk, numbers in partitions.items() if pk in queues]


def again(operation: Operation, show: Show) -> dict[UUID, int]:
    """The failed or the skipped part as it stands now, to be frozen by an operation of its own.

    No more than one takes, and one more, which tells that there are more.
    """
    sql = (
        f"SELECT e.id, e.version {_JOINED} WHERE i.operation_id = %s AND {_SHOWN[show]} "
        "AND e.id IS NOT NULL AND e.state = 'HOLD' ORDER BY i.place LIMIT %s"
    )
    return dict(fetch_all(sql, [operation.pk, MOST_COUNTED + 1]))
