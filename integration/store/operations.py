"""The SQL of operations: freezing a selection, owning an operation, one chunk of its items."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from django.db.models import QuerySet

from integration.formats.wire import HEADER_BYTES
from integration.models import MessageError
from integration.policy.operations import ItemOutcome, Seen
from integration.policy.states import ErrorState, OperationState
from integration.store.querysets import text_of
from integration.store.sessions import execute, fetch_all

# The time for which a dead runner keeps the next one from going on; each chunk renews it.
LEASE_SECONDS: Final = 5.0
# Contents that are read at once, those of the last message aside: parsed, they take several times
# as much, in a process that may have 512 MB.
CONTENT_BYTES: Final = 8 * 1_024 * 1_024

# The rule of selectors.lateness in SQL, over an error `e`, its queue `q` and, if it is still
# there, its partition `p`: applied now, the message would come after newer ones.
IS_LATE: Final = """(
    q.kind = 'sequential' AND (e.parked_at IS NULL OR e.order_key IS NULL)
    AND (q.strict_order OR NOT q.is_error_queue)
    AND (p.id IS NULL OR p.topic_uuid <> e.topic_uuid OR e."offset" < p.next_offset
         OR (e.expired_at IS NOT NULL AND q.on_head_expired = 'advance'))
)"""
WITH_PLACE: Final = """
    JOIN integration_queue q ON q.id = e.queue_id
    LEFT JOIN integration_queuepartition p ON p.queue_id = e.queue_id AND p.partition = e.partition
"""

_ITEMS: Final = (
    "INSERT INTO integration_operationitem (operation_id, place, error_id, version, outcome, text) "
)
# In the order of arrival: what came first is applied first. What is deleted goes the other way: a
# first one of its key that is closed lets the next one be tried.
_ORDERS: Final = {
    False: "e.arrival_batch, e.arrival_index, e.id",
    True: "e.arrival_batch DESC, e.arrival_index DESC, e.id DESC",
}
_PLACED: Final = (
    "SELECT %s, row_number() OVER (ORDER BY {order}) - 1, "
    "e.id, {version}, '', '' FROM integration_messageerror e "
)
_CHOSEN: Final = (
    _ITEMS
    + _PLACED.format(version="v.version", order="{order}")
    + "JOIN unnest(%s::uuid[], %s::int[]) v (id, version) ON v.id = e.id "
    "WHERE e.queue_id = ANY(%s) OR %s"
)
_SUM_UP: Final = """
UPDATE integration_operation o SET total = s.total, queues = s.queues FROM (
    SELECT count(*) AS total, coalesce(array_agg(DISTINCT e.queue_id), '{}') AS queues
    FROM integration_operationitem i JOIN integration_messageerror e ON e.id = i.error_id
    WHERE i.operation_id = %s
) s WHERE o.id = %s RETURNING o.total, o.queues
"""

_TAKE: Final = """
UPDATE integration_operation SET owner = %s, epoch = epoch + 1, asked_at = NULL,
    lease_until = clock_timestamp() + %s * interval '1 second'
WHERE id = %s AND state = 'RUNNING'
  AND (lease_until IS NULL OR lease_until < clock_timestamp())
RETURNING epoch, extract(epoch FROM clock_timestamp() - worked_at)::float8
"""
# Locks the row until the chunk is committed: a person's decision comes before it or after it.
_FENCE: Final = """
UPDATE integration_operation SET lease_until = clock_timestamp() + %s * interval '1 second',
    worked_at = CASE WHEN %s THEN clock_timestamp() ELSE worked_at END
WHERE id = %s AND epoch = %s AND state = 'RUNNING' RETURNING rate, first_only, systems
"""
_LEAVE: Final = """
UPDATE integration_operation SET lease_until = NULL, owner = ''
WHERE id = %s AND epoch = %s RETURNING state
"""
_END: Final = """
UPDATE integration_operation SET state = 'DONE', ended_at = clock_timestamp(), first_only = false,
    why_paused = '' WHERE id = %s AND epoch = %s AND state = 'RUNNING'
"""
_STEP_BACK: Final = """
UPDATE integration_operation SET state = 'PAUSED', first_only = false, why_paused = %s
WHERE id = %s AND epoch = %s AND state = 'RUNNING'
"""
_COUNT_UP: Final = """
UPDATE integration_operation SET handled = handled + %s, done = done + %s
WHERE id = %s AND epoch = %s
"""
_NEXT: Final = """
SELECT id, place, error_id, version FROM integration_operationitem
WHERE operation_id = %s AND outcome = '' AND place >= %s ORDER BY place LIMIT %s
"""
# What the messages before each of these hold, without reading any of them.
_AHEAD: Final = """
SELECT coalesce(sum(octet_length(coalesce(e.edited_payload, e.payload)))
    OVER (ORDER BY i.place ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0)
FROM (
    SELECT place, error_id FROM integration_operationitem
    WHERE operation_id = %s AND outcome = '' AND place >= %s ORDER BY place LIMIT %s
) i LEFT JOIN integration_messageerror e ON e.id = i.error_id ORDER BY i.place
"""
_LOCK: Final = f"""
SELECT e.id, e.version, e.state, {IS_LATE}, e.queue_id, e.carrier
FROM integration_messageerror e {WITH_PLACE}
WHERE e.id = ANY(%s) ORDER BY e.id FOR UPDATE OF e SKIP LOCKED
"""
_CONTENT: Final = """
SELECT id, version, queue_id, interface, coalesce(edited_payload, payload), headers
FROM integration_messageerror WHERE id = ANY(%s) AND (%s::text IS NULL OR state = %s)
"""
# As much as tells by which schema of a registry a record was written.
_BEGINNINGS: Final = f"""
SELECT DISTINCT queue_id, substring(coalesce(edited_payload, payload) FROM 1 FOR {HEADER_BYTES})
FROM integration_messageerror WHERE id = ANY(%s)
"""
_HELD_BEGINNINGS: Final = f"""
SELECT DISTINCT queue_id, substring(coalesce(edited_payload, payload) FROM 1 FOR {HEADER_BYTES})
FROM integration_messageerror WHERE state = 'HOLD' AND queue_id = ANY(%s)
"""
_EXISTING: Final = "SELECT id FROM integration_messageerror WHERE id = ANY(%s)"
_EDIT: Final = """
UPDATE integration_messageerror e SET edited_payload = v.payload, edited_by = %s,
    edited_at = clock_timestamp(), version = e.version + 1
FROM unnest(%s::uuid[], %s::bytea[]) v (id, payload) WHERE e.id = v.id
"""
_CHANGES: Final = """
INSERT INTO integration_errorchange
    (error_id, at, actor, action, from_state, to_state, reason, payload_before, operation)
SELECT v.id, clock_timestamp(), %s, %s, v.state, %s, %s, v.payload, %s
FROM unnest(%s::uuid[], %s::text[], %s::bytea[]) v (id, state, payload)
"""
# By the primary key alone. The fence has made sure that these items still wait; asked again here,
# a planner that does not know the new rows yet would compare each of them with each of the chunk.
_OUTCOMES: Final = """
UPDATE integration_operationitem i SET outcome = v.outcome, version_after = v.version,
    text = v.text, at = clock_timestamp()
FROM unnest(%s::bigint[], %s::text[], %s::int[], %s::text[]) v (id, outcome, version, text)
WHERE i.id = v.id
"""


@dataclass(frozen=True, slots=True)
class Tenure:
    """A runner's hold on an operation; every write carries its epoch."""

    operation: UUID
    epoch: int
    idle_seconds: float | None


@dataclass(frozen=True, slots=True)
class Orders:
    """People's orders for a running operation, as they stand at the beginning of a chunk."""

    rate: int | None
    first_only: bool
    systems: Sequence[int] | None


@dataclass(frozen=True, slots=True)
class Item:
    """One message whose turn it is, at the version it was chosen at."""

    id: int
    place: int
    error: UUID
    version: int


@dataclass(frozen=True, slots=True)
class Locked:
    """A failure, locked until the commit."""

    seen: Seen
    queue_id: int
    carrier: str


@dataclass(frozen=True, slots=True)
class Content:
    """The content that the next attempt at a failure would read; `headers` as stored."""

    version: int
    queue_id: int
    interface: str
    record: bytes | None
    headers: Any


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of one item; `version` is the failure's afterwards, None where it was left."""

    place: int
    outcome: ItemOutcome
    version: int | None = None
    text: str = ""


# Choosing


def freeze_chosen(
    operation: UUID,
    versions: Mapping[UUID, int],
    queues: Sequence[int] | None,
    *,
    last_first: bool = False,
) -> int:
    """Store these failures at these versions, but for queues outside `queues` (None: all).

    In the order of arrival, or the other way round.
    """
    marks = [operation, list(versions), list(versions.values())]
    sql = _CHOSEN.format(order=_ORDERS[last_first])
    return execute(sql, [*marks, list(queues or ()), queues is None])


def freeze_matching(
    operation: UUID, failures: QuerySet[MessageError], limit: int, *, last_first: bool = False
) -> int:
    """Store the failures of a query, at most the `limit` oldest, in one statement.

    In the order of arrival, or the other way round.
    """
    oldest = failures.order_by("last_failed_at", "id")[:limit]
    sql, parameters = text_of(oldest.values("id", "version", "arrival_batch", "arrival_index"))
    placed = _PLACED.format(version="e.version", order=_ORDERS[last_first]).replace(
        "integration_messageerror e", f"({sql}) e", 1
    )
    return execute(_ITEMS + placed, [operation, *parameters])


def sum_up(operation: UUID) -> tuple[int, list[int]]:
    """Write down and return how many messages were frozen, and of which queues."""
    [(total, queues)] = fetch_all(_SUM_UP, [operation, operation])
    return total, list(queues)


# Owning


def take(operation: UUID, owner: str) -> Tenure | None:
    """Become the one runner of a running operation; None when somebody else is, or none may."""
    rows = fetch_all(_TAKE, [owner, LEASE_SECONDS, operation])
    return Tenure(operation, rows[0][0], rows[0][1]) if rows else None


def fence(tenure: Tenure, *, works: bool) -> Orders | None:
    """Keep the operation for this transaction; None when it is not ours or not running any more."""
    rows = fetch_all(_FENCE, [LEASE_SECONDS, works, tenure.operation, tenure.epoch])
    return Orders(*rows[0]) if rows else None


def leave(tenure: Tenure) -> OperationState | None:
    """Give the operation back; returns its state, None when somebody else owns it."""
    rows = fetch_all(_LEAVE, [tenure.operation, tenure.epoch])
    return OperationState(rows[0][0]) if rows else None


def end(tenure: Tenure) -> None:
    """Every message had its turn."""
    execute(_END, [tenure.operation, tenure.epoch])


def step_back(tenure: Tenure, why: str) -> None:
    """Pause without a person: the first message is on its way."""
    execute(_STEP_BACK, [why, tenure.operation, tenure.epoch])


# One chunk


def next_items(tenure: Tenure, from_place: int, limit: int) -> list[Item]:
    """The next messages without an outcome, in their order."""
    return [Item(*row) for row in fetch_all(_NEXT, [tenure.operation, from_place, limit])]


def at_once(operation: UUID, from_place: int, limit: int) -> int:
    """Return how many of the next `limit` messages may be read at once: at least one.

    Fewer than `limit` only where their contents are too large.
    """
    ahead = [before for (before,) in fetch_all(_AHEAD, [operation, from_place, limit])]
    fit = sum(before < CONTENT_BYTES for before in ahead)
    return fit if fit < len(ahead) else limit


def lock(errors: Sequence[UUID]) -> dict[UUID, Locked]:
    """Lock these failures; those that somebody else holds, and those that are gone, are missing."""
    return {
        id_: Locked(Seen(version, ErrorState(state), bool(late)), queue_id, carrier)
        for id_, version, state, late, queue_id, carrier in fetch_all(_LOCK, [list(errors)])
    }


def existing(errors: Sequence[UUID]) -> frozenset[UUID]:
    """Those that are in the error table, locked or not."""
    return frozenset(id_ for (id_,) in fetch_all(_EXISTING, [list(errors)]))


def contents(errors: Sequence[UUID], state: ErrorState | None = None) -> dict[UUID, Content]:
    """Read what these failures hold; with `state` only of those that are in it."""
    return {
        id_: Content(version, queue_id, interface, None if value is None else bytes(value), headers)
        for id_, version, queue_id, interface, value, headers in fetch_all(
            _CONTENT, [list(errors), state, state]
        )
    }


def beginnings(errors: Sequence[UUID]) -> list[tuple[int, bytes | None]]:
    """The queues of these failures, each with how its records begin."""
    return _begun(fetch_all(_BEGINNINGS, [list(errors)]))


def held_beginnings(queues: Sequence[int]) -> list[tuple[int, bytes | None]]:
    """The same of all failures of these queues that are on hold."""
    return _begun(fetch_all(_HELD_BEGINNINGS, [list(queues)]))


def _begun(rows: Iterable[tuple[int, Any]]) -> list[tuple[int, bytes | None]]:
    return [(queue, None if value is None else bytes(value)) for queue, value in rows]


def edit(payloads: Mapping[UUID, bytes], actor: str) -> None:
    """Replace what the next attempt reads; raises each row's version by one."""
    execute(_EDIT, [actor, list(payloads), list(payloads.values())])


def write_changes(
    about: tuple[str, str, str, str, UUID], rows: Sequence[tuple[UUID, str, bytes | None]]
) -> None:
    """A line of history for each row: (id, state before, payload before).

    `about` is (actor, action, state afterwards, reason, operation), the same for all.
    """
    columns = [list(column) for column in zip(*rows, strict=True)]
    execute(_CHANGES, [*about, *columns])


def write_outcomes(tenure: Tenure, items: Sequence[Item], ended: Sequence[Ended]) -> None:
    """Close these items of a fenced chunk and count them."""
    ids = {item.place: item.id for item in items}
    rows = [(ids[item.place], item.outcome.value, item.version, item.text) for item in ended]
    execute(_OUTCOMES, [list(column) for column in zip(*rows, strict=True)])
    done = sum(item.outcome is ItemOutcome.DONE for item in ended)
    execute(_COUNT_UP, [len(ended), done, tenure.operation, tenure.epoch])
