"""Sums for the first page: failures that wait, refused rows, how old what waits is."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from integration.models import OutboxRow
from integration.policy.states import OutboxState
from integration.selectors.outbox import scope as outbox_scope
from integration.selectors.outbox.relaying import relays
from integration.selectors.queues.rows import QueueRow
from integration.selectors.scope import Scope
from integration.store.sessions import django_connection

# Shown as "10,000+" beyond.
COUNT_CAP: Final = 10_000
# Queue by queue, by the partial index of open failures, until the cap is reached.
_OPEN: Final = f"""
    SELECT s.state, (SELECT count(*) FROM (
        SELECT 1 FROM unnest(%s::bigint[]) q (id)
        CROSS JOIN LATERAL (SELECT 1 FROM integration_messageerror e
            WHERE e.queue_id = q.id AND e.state = s.state
              AND e.state IN ('RETRY', 'HOLD', 'READY', 'PROCESSING')
            LIMIT {COUNT_CAP + 1}) one
        LIMIT {COUNT_CAP + 1}) few)
    FROM (VALUES ('HOLD'), ('RETRY')) s (state)"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Over all queues a person may know of. Counts stop one above COUNT_CAP.

    `relay_age_seconds` is how long the longest waiting outbox row has been due, None when none
    is, and for people who do not see the whole outbox. `seen_at` is the oldest look at a topic.
    """

    lag: int
    oldest: QueueRow | None
    held: int
    retrying: int
    refused: int
    relay_age_seconds: float | None
    seen_at: datetime | None


def totals(rows: Sequence[QueueRow], scope: Scope) -> Totals:
    """In three queries, whatever the number of queues and failures."""
    waiting = [row for row in rows if row.oldest_waiting_at is not None]
    seen = [part.seen_at for row in rows for part in row.partitions if part.seen_at is not None]
    counts = _open([row.id for row in rows])
    dead = OutboxRow.objects.filter(outbox_scope.within(scope), state=OutboxState.DEAD)
    return Totals(
        lag=sum(row.lag or 0 for row in rows),
        oldest=min(waiting, key=_waits_since, default=None),
        held=counts["HOLD"],
        retrying=counts["RETRY"],
        refused=dead.order_by()[: COUNT_CAP + 1].count(),
        relay_age_seconds=_relay_age() if scope.is_whole else None,
        seen_at=min(seen, default=None),
    )


def _waits_since(row: QueueRow) -> datetime:
    assert row.oldest_waiting_at is not None  # noqa: S101 - only such rows are compared
    return row.oldest_waiting_at


def _open(ids: list[int]) -> dict[str, int]:
    with django_connection().cursor() as cursor:
        cursor.execute(_OPEN, (ids,))
        return dict(cursor.fetchall())


def _relay_age() -> float | None:
    ages = [one.oldest_due_seconds for one in relays() if one.oldest_due_seconds is not None]
    return max(ages, default=None)
