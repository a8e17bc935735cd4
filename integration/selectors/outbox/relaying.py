"""How the relay stands for each provider: what is due, since when, and who sends it."""

from dataclasses import dataclass
from typing import Any, Final

from integration.store.sessions import django_connection

PENDING_CAP: Final = 100_000
# The index of pending rows begins with (provider, shard, not_before): rows without a time are
# asked for by the lowest id, those with one by the earliest time. Both are one probe.
_RELAYS: Final = f"""
    SELECT v.name, pending.count, stamped.count, dead.count,
           extract(epoch FROM clock_timestamp() - least(at_once.due, timed.due))::float,
           coalesce(l.lease_until > clock_timestamp(), false),
           extract(epoch FROM clock_timestamp() - l.in_doubt_since)::float,
           coalesce(l.epoch, 0)
    FROM integration_provider v
    LEFT JOIN integration_relaylease l ON l.provider_id = v.id AND l.shard = 0
    CROSS JOIN LATERAL (SELECT count(*) FROM (
        SELECT 1 FROM integration_outboxrow o
        WHERE o.provider_id = v.id AND o.shard = 0 AND o.state = 'PENDING'
        LIMIT {PENDING_CAP}) few) pending
    CROSS JOIN LATERAL (SELECT count(*) FROM integration_outboxrow o
        WHERE o.provider_id = v.id AND o.shard = 0 AND o.state = 'STAMPED') stamped
    CROSS JOIN LATERAL (SELECT count(*) FROM (
        SELECT 1 FROM integration_outboxrow o
        WHERE o.state = 'DEAD' AND o.provider_id = v.id AND o.shard = 0
        LIMIT {PENDING_CAP}) few) dead
    LEFT JOIN LATERAL (SELECT o.created_at AS due FROM integration_outboxrow o
        WHERE o.provider_id = v.id AND o.shard = 0 AND o.state = 'PENDING'
          AND o.not_before IS NULL
        ORDER BY o.id LIMIT 1) at_once ON true
    LEFT JOIN LATERAL (SELECT o.not_before AS due FROM integration_outboxrow o
        WHERE o.provider_id = v.id AND o.shard = 0 AND o.state = 'PENDING'
          AND o.not_before <= clock_timestamp()
        ORDER BY o.not_before LIMIT 1) timed ON true
    ORDER BY v.name"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Relaying:
    """One provider's outbox. `pending` and `dead` are counted up to PENDING_CAP.

    `oldest_due_seconds` is how long the longest waiting due row has been due; None = none is.
    `takeovers` counts how often a relay took the shard.
    """

    provider: str
    pending: int
    stamped: int
    dead: int
    oldest_due_seconds: float | None
    is_held: bool
    in_doubt_seconds: float | None
    takeovers: int


def relays() -> list[Relaying]:
    """Every provider by name, in one query whose cost does not grow with what was sent."""
    with django_connection().cursor() as cursor:
        cursor.execute(_RELAYS)
        return [_relaying(row) for row in cursor.fetchall()]


def _relaying(row: tuple[Any, ...]) -> Relaying:
    return Relaying(
        provider=row[0],
        pending=row[1],
        stamped=row[2],
        dead=row[3],
        oldest_due_seconds=row[4],
        is_held=row[5],
        in_doubt_seconds=row[6],
        takeovers=row[7],
    )
