"""Errors cleanup: takes closed failures away once their retention is over; never an open one."""

from dataclasses import dataclass
from typing import Any, Final

from django.conf import settings
from django.db import transaction

from crontasks.cursor import Cursor, django_cursor
from crontasks.definitions import crontask
from crontasks.outcome import Context, Outcome
from crontasks.parameters import option

LEAST_SECONDS: Final = 7 * 86_400

# Deleted heads of a sequential queue are still needed: the next run sees DELETED at its
# position and passes it. Closed rows past the retention of their queue, at least seven days.
_OLD: Final = f"""
    FROM integration_messageerror e
    JOIN integration_queue q ON q.id = e.queue_id
    WHERE e.state IN ('RESOLVED', 'DELETED') AND e.closed_at IS NOT NULL
      AND e.closed_at < clock_timestamp()
          - make_interval(secs => greatest(q.retention_seconds, {LEAST_SECONDS}))
      AND NOT (e.state = 'DELETED' AND q.kind = 'sequential' AND e.offset >= coalesce((
            SELECT p.next_offset FROM integration_queuepartition p
            WHERE p.queue_id = q.id AND p.partition = e.partition
              AND p.topic_uuid = e.topic_uuid), e.offset + 1))"""  # noqa: S608 - constants
_SIMULATE: Final = f"""
    SELECT state, days, count(*), coalesce(sum(bytes), 0)::bigint FROM (
        SELECT e.state, floor(extract(epoch FROM clock_timestamp() - e.closed_at) / 86400)::int
                 AS days,
               coalesce(octet_length(e.payload), 0) + coalesce(octet_length(e.edited_payload), 0)
                 + pg_column_size(e.headers) + octet_length(e.detail) AS bytes
        {_OLD}
    ) old GROUP BY state, days ORDER BY state, days"""  # noqa: S608 - constants
_PICK: Final = (
    f"SELECT e.id, e.state {_OLD} ORDER BY e.closed_at LIMIT %s FOR UPDATE OF e SKIP LOCKED"
)
# Their attempts and changes go with them.
_REMOVE: Final = (
    "DELETE FROM integration_errorattempt WHERE error_id = ANY(%s)",
    "DELETE FROM integration_errorchange WHERE error_id = ANY(%s)",
    "DELETE FROM integration_messageerror WHERE id = ANY(%s)",
)


@dataclass(frozen=True)
class CleanupParameters:
    """How the cleanup works."""

    chunk_rows: int = option(1_000, "Rows in one transaction.", least=1, most=50_000)
    simulate: bool = option(False, "Only count what would go; nothing is removed.")


@dataclass(frozen=True, slots=True)
class OldRows:
    """Closed failures of one state and age that are past their retention."""

    state: str
    days: int
    rows: int
    size_bytes: int


def simulate() -> list[OldRows]:
    """What a cleanup would remove now, by state and age in whole days; removes nothing."""
    with django_cursor() as cursor:
        cursor.execute(_SIMULATE)
        return [OldRows(*row) for row in cursor.fetchall()]


@crontask("errors_cleanup", title="Errors cleanup", parameters=CleanupParameters)
class ErrorsCleanup:
    """Removes closed failures once their queue's retention is over, at least seven days.

    The days count from the closing. Open failures are never removed, expired or not.
    """

    def run(self, parameters: CleanupParameters, context: Context) -> Outcome:
        if parameters.simulate:
            return _simulated(context)
        counts = {"RESOLVED": 0, "DELETED": 0}
        while not context.should_stop():
            removed = remove_chunk(parameters.chunk_rows)
            for state in removed:
                counts[state] += 1
            if len(removed) < parameters.chunk_rows:
                break
        return Outcome(counts=counts)


def remove_chunk(rows: int) -> list[str]:
    """Remove at most so many in one transaction; returns their states."""
    with transaction.atomic(using=settings.SLUICE_DATABASE), django_cursor() as cursor:
        cursor.execute(_PICK, (rows,))
        picked: list[Any] = list(cursor.fetchall())
        _remove(cursor, [id_ for id_, _ in picked])
    return [state for _, state in picked]


def _remove(cursor: Cursor, ids: list[Any]) -> None:
    for statement in _REMOVE:
        cursor.execute(statement, (ids,))


def _simulated(context: Context) -> Outcome:
    counts: dict[str, int] = {}
    for old in simulate():
        counts[old.state] = counts.get(old.state, 0) + old.rows
        context.say(
            f"{old.rows:,} rows {old.state}, closed {old.days} days ago, {old.size_bytes:,} bytes"
        )
    return Outcome(counts=counts, text="Simulated: nothing was removed.")
