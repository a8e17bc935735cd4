"""The state of the relay: for each provider, and for the topic of one outbound queue."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.db.models import Q

from integration.models import OutboxRow, Queue
from integration.policy.relay_shares import shard_of
from integration.policy.states import OutboxKind, OutboxState
from integration.selectors.outbox.shards import lease_of, leases_of, waits_sql
from integration.selectors.paging import capped_count
from integration.store.sessions import fetch_all

PENDING_CAP: Final = 100_000
COUNT_CAP: Final = 10_000
# That of each row, whichever shard of the relay sends it.
SHARD: Final = 0
_IS_SERVED: Final = "(x.shard < v.shards OR x.first_bucket < x.end_bucket)"
# The index of pending rows begins with (provider, shard, not_before): rows without a time are
# asked for by the lowest id, those with one by the earliest time. Both are one probe.
_RELAYS: Final = f"""
    SELECT v.name, pending.count, stamped.count, dead.count,
           extract(epoch FROM clock_timestamp() - least(at_once.due, timed.due))::float,
           l.held >= v.shards, extract(epoch FROM clock_timestamp() - l.in_doubt_since)::float,
           coalesce(l.takes, 0), coalesce(l.trouble, '')
    FROM integration_provider v
    CROSS JOIN LATERAL (SELECT
        count(*) FILTER (WHERE x.shard < v.shards AND x.lease_until > clock_timestamp()) AS held,
        min(x.in_doubt_since) AS in_doubt_since, sum(x.epoch)::bigint AS takes,
        coalesce(max(x.trouble) FILTER (WHERE {_IS_SERVED} AND {waits_sql("x.trouble")}),
                 max(x.trouble) FILTER (WHERE {_IS_SERVED})) AS trouble
        FROM integration_relaylease x WHERE x.provider_id = v.id) l
    CROSS JOIN LATERAL (SELECT count(*) FROM (
        SELECT 1 FROM integration_outboxrow o
        WHERE o.provider_id = v.id AND o.shard = {SHARD} AND o.state = '{OutboxState.PENDING}'
        LIMIT {PENDING_CAP}) few) pending
    CROSS JOIN LATERAL (SELECT count(*) FROM integration_outboxrow o
        WHERE o.provider_id = v.id AND o.shard = {SHARD}
          AND o.state = '{OutboxState.STAMPED}') stamped
    CROSS JOIN LATERAL (SELECT count(*) FROM (
        SELECT 1 FROM integration_outboxrow o
        WHERE o.state = '{OutboxState.DEAD}' AND o.provider_id = v.id AND o.shard = {SHARD}
        LIMIT {PENDING_CAP}) few) dead
    LEFT JOIN LATERAL (SELECT o.created_at AS due FROM integration_outboxrow o
        WHERE o.provider_id = v.id AND o.shard = {SHARD} AND o.state = '{OutboxState.PENDING}'
          AND o.not_before IS NULL
        ORDER BY o.id LIMIT 1) at_once ON true
    LEFT JOIN LATERAL (SELECT o.not_before AS due FROM integration_outboxrow o
        WHERE o.provider_id = v.id AND o.shard = {SHARD} AND o.state = '{OutboxState.PENDING}'
          AND o.not_before <= clock_timestamp()
        ORDER BY o.not_before LIMIT 1) timed ON true
    WHERE v.kind = 'kafka'
    ORDER BY v.name"""


@dataclass(frozen=True, slots=True)
class Relaying:
    """One provider's outbox. `pending` and `dead` are counted up to PENDING_CAP.

    `oldest_due_seconds` is how long the longest waiting due row has been due; None = none is.
    `is_held` is true while all shards are. `takeovers` counts how often a relay took one of them;
    `trouble` is why one waits for Kafka; where none does, which topics one leaves out.
    """

    provider: str
    pending: int
    stamped: int
    dead: int
    oldest_due_seconds: float | None
    is_held: bool
    in_doubt_seconds: float | None
    takeovers: int
    trouble: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sending:
    """`waiting` and `refused` stop one above the cap; a person decides about refused ones.

    `shard` is the one that sends the topic, `shards` how many people want.
    """

    shard: int
    shards: int
    waiting: int
    oldest_at: datetime | None
    refused: int
    owner: str
    seen_at: datetime | None
    in_doubt_since: datetime | None
    in_doubt_text: str
    trouble: str

    @property
    def is_capped(self) -> bool:
        return self.waiting > COUNT_CAP

    @property
    def shown_waiting(self) -> int:
        return min(self.waiting, COUNT_CAP)


def relays() -> list[Relaying]:
    """Every Kafka cluster by name, in one query whose cost does not grow with what was sent."""
    return [Relaying(*row) for row in fetch_all(_RELAYS)]


def sending(queue: Queue) -> Sending:
    """Tell what an outbound queue has to send, in four queries by the index of what is open."""
    rows = OutboxRow.objects.filter(
        provider=queue.provider_id, topic=queue.topic, kind=OutboxKind.MESSAGE
    )
    open_ones = Q(state=OutboxState.PENDING) | Q(state=OutboxState.STAMPED)
    still = rows.filter(open_ones, shard=SHARD)
    lease = lease_of(leases_of([queue.provider_id]), queue.provider, queue.topic)
    is_held = lease is not None and bool(getattr(lease, "is_held", False))
    shards = queue.provider.shards
    return Sending(
        shard=shard_of(queue.topic, shards) if lease is None else lease.shard,
        shards=shards,
        waiting=capped_count(still, COUNT_CAP),
        oldest_at=still.order_by("id").values_list("created_at", flat=True).first(),
        refused=capped_count(rows.filter(state=OutboxState.DEAD), COUNT_CAP),
        owner=lease.owner if lease is not None and is_held else "",
        seen_at=None if lease is None else lease.seen_at,
        in_doubt_since=None if lease is None else lease.in_doubt_since,
        in_doubt_text="" if lease is None else lease.in_doubt_text,
        trouble=lease.trouble if lease is not None and is_held else "",
    )
