"""Sums for the first page: failures that wait, refused rows, how old what waits is."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from integration.models import OutboxRow
from integration.policy.states import OPEN_SQL, ErrorState, OutboxState
from integration.selectors.outbox.relaying import relays
from integration.selectors.outbox.rows import within
from integration.selectors.paging import capped_count
from integration.selectors.queues.rows import QueueRow
from integration.selectors.scope import Scope
from integration.store.sessions import fetch_all

# Shown as "10,000+" beyond.
COUNT_CAP: Final = 10_000
# Queue by queue, by the partial index of open failures, until the cap is reached.
_OPEN: Final = f"""
    SELECT s.state, (SELECT count(*) FROM (
        SELECT 1 FROM unnest(%s::bigint[]) q (id)
        CROSS JOIN LATERAL (SELECT 1 FROM integration_messageerror e
            WHERE e.queue_id = q.id AND e.state = s.state
              AND e.state IN {OPEN_SQL}
            LIMIT {COUNT_CAP + 1}) one
        LIMIT {COUNT_CAP + 1}) few)
    FROM (VALUES ('{ErrorState.HOLD}'), ('{ErrorState.RETRY}')) s (state)"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Over all queues a person may know of. Counts stop one above COUNT_CAP.

    `relay_age_seconds` is how long the longest waiting outbox row has been due, None when none
    is, and for people who do not see the whole outbox. `seen_at` is the oldest look at a topic;
    more may wait than `lag` where it `is_least`.
    """

    lag: int
    is_least: bool
    oldest: QueueRow | None
    held: int
    retrying: int
    refused: int
    relay_age_seconds: float | None
    seen_at: datetime | None


def totals(rows: Sequence[QueueRow], scope: Scope) -> Totals:
    """Sum up in three queries, whatever the number of queues and failures."""
    waiting = [(at, row) for row in rows if (at := row.oldest_waiting_at) is not None]
    parts = [part for row in rows for part in row.partitions]
    moments = [part.seen_at for part in parts if part.seen_at and part.lag is not None]
    counts = _open([row.id for row in rows])
    dead = OutboxRow.objects.filter(within(scope), state=OutboxState.DEAD)
    return Totals(
        lag=sum(row.lag or 0 for row in rows),
        is_least=any(row.is_least for row in rows),
        oldest=min(waiting, key=lambda pair: pair[0])[1] if waiting else None,
        held=counts[ErrorState.HOLD],
        retrying=counts[ErrorState.RETRY],
        refused=capped_count(dead, COUNT_CAP),
        relay_age_seconds=_relay_age() if scope.is_whole else None,
        seen_at=min(moments, default=None),
    )


def _open(ids: list[int]) -> dict[str, int]:
    return dict(fetch_all(_OPEN, (ids,)))


def _relay_age() -> float | None:
    ages = [relay.oldest_due_seconds for relay in relays() if relay.oldest_due_seconds is not None]
    return max(ages, default=None)
