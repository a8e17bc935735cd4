"""The shards of providers' relays: who serves each, which topics it holds, what waits there."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from django.db.models import BooleanField, ExpressionWrapper, Q

from integration.delivery.relay.left_out import LEAVES_OUT, leaves_out
from integration.models import Provider, RelayLease
from integration.policy import relay_shares
from integration.policy.relay_shares import BUCKETS, Share
from integration.policy.states import OutboxState
from integration.store.relay_sharing import BUCKET, SERVED
from integration.store.sessions import database_now, fetch_all

# Counted no further: what is of other shards is passed in the index for it.
PENDING_CAP: Final = 10_000
_OF_SHARD: Final = (
    f"o.provider_id = v.id AND o.shard = 0 AND o.state = '{OutboxState.PENDING}' "
    f"AND {BUCKET} >= share.low AND {BUCKET} < share.high"
)
# A shard that holds nothing is looked at as if it held its share.
_SHARDS: Final = f"""
    SELECT v.id, v.name, v.shards, s.shard, coalesce(l.first_bucket, 0), coalesce(l.end_bucket, 0),
           coalesce(l.owner, ''), coalesce(l.lease_until > clock_timestamp(), false),
           l.in_doubt_since, coalesce(l.trouble, ''), pending.count,
           extract(epoch FROM clock_timestamp() - least(at_once.due, timed.due))::float
    FROM ({SERVED}) s (provider, shard)
    JOIN integration_provider v ON v.id = s.provider
    LEFT JOIN integration_relaylease l ON l.provider_id = v.id AND l.shard = s.shard
    CROSS JOIN LATERAL (SELECT
        CASE WHEN l.first_bucket < l.end_bucket THEN l.first_bucket
             ELSE s.shard * {BUCKETS} / v.shards END AS low,
        CASE WHEN l.first_bucket < l.end_bucket THEN l.end_bucket
             ELSE (s.shard + 1) * {BUCKETS} / v.shards END AS high) share
    CROSS JOIN LATERAL (SELECT count(*) FROM (
        SELECT 1 FROM integration_outboxrow o WHERE {_OF_SHARD}
        LIMIT {PENDING_CAP + 1}) few) pending
    LEFT JOIN LATERAL (SELECT o.created_at AS due FROM integration_outboxrow o
        WHERE {_OF_SHARD} AND o.not_before IS NULL
        ORDER BY o.not_before, o.id LIMIT 1) at_once ON true
    LEFT JOIN LATERAL (SELECT o.not_before AS due FROM integration_outboxrow o
        WHERE {_OF_SHARD} AND o.not_before <= clock_timestamp()
        ORDER BY o.not_before LIMIT 1) timed ON true
    WHERE v.id = %(provider)s
       OR %(provider)s::bigint IS NULL AND EXISTS (
            SELECT 1 FROM ({SERVED}) o (provider, shard) WHERE o.provider = v.id AND o.shard > 0)
    ORDER BY v.name, s.shard"""


def waits_sql(trouble: str) -> str:
    """SQL condition: the trouble of this SQL expression is more than that topics are left out."""
    return f"({trouble} <> '' AND NOT starts_with({trouble}, '{LEAVES_OUT}'))"


class ShardState(StrEnum):
    """What one shard does, in the words that people read."""

    AT_WORK = "at work"
    MOVING = "changes its share"
    WAITS = "waits for its share"
    TROUBLE = "waits for Kafka"
    LEAVES_OUT = "leaves topics out"
    IN_DOUBT = "in doubt"
    UNSERVED = "nobody serves it"


@dataclass(frozen=True, slots=True)
class Shard:
    """One shard. `pending` stops one above PENDING_CAP; `oldest_due_seconds` None: nothing is due.

    Both figures are None while another shard still holds its topics.
    """

    provider_id: int
    provider: str
    shards: int
    shard: int
    held: Share
    state: ShardState
    owner: str
    in_doubt_since: datetime | None
    trouble: str
    pending: int | None
    oldest_due_seconds: float | None

    @property
    def is_grave(self) -> bool:
        return self.state not in {ShardState.AT_WORK, ShardState.MOVING, ShardState.WAITS}

    @property
    def is_extra(self) -> bool:
        """Return whether people want fewer shards, and it still holds something."""
        return self.shard >= self.shards

    @property
    def percent(self) -> int:
        """How much of all topics it holds, by their hash."""
        return round(100 * (self.held.end - self.held.first) / BUCKETS)


def of_provider(provider: int) -> list[Shard]:
    """Every shard of one provider's relay, in one query."""
    return _shards(provider)


def of_all() -> list[Shard]:
    """Every shard of the providers that have several, in one query."""
    return _shards(None)


def _shards(provider: int | None) -> list[Shard]:
    rows = fetch_all(_SHARDS, {"provider": provider})
    held = {(row[0], row[3]): Share(row[4], row[5]) for row in rows}
    return [_shard(row, held) for row in rows]


def _shard(row: Sequence[Any], held: Mapping[tuple[int, int], Share]) -> Shard:
    provider_id, provider, shards, shard, _, _, owner, is_held, since, trouble, pending, age = row
    mine, share = held[provider_id, shard], relay_shares.share(shard, shards)
    is_elsewhere = not mine and any(
        other.common(share) for (of, _), other in held.items() if of == provider_id
    )
    if since is not None:
        state = ShardState.IN_DOUBT
    elif not is_held:
        state = ShardState.UNSERVED
    elif trouble:
        state = ShardState.LEAVES_OUT if leaves_out(trouble) else ShardState.TROUBLE
    elif mine == share:
        state = ShardState.AT_WORK
    else:
        state = ShardState.MOVING if mine else ShardState.WAITS
    return Shard(
        provider_id=provider_id,
        provider=provider,
        shards=shards,
        shard=shard,
        held=mine,
        state=state,
        owner=owner if is_held else "",
        in_doubt_since=since,
        trouble=trouble if is_held else "",
        pending=None if is_elsewhere else pending,
        oldest_due_seconds=None if is_elsewhere else age,
    )


def leases_of(providers: Collection[int]) -> list[RelayLease]:
    """The leases of these providers' relays, each with whether it is held; one query."""
    held = ExpressionWrapper(Q(lease_until__gt=database_now()), output_field=BooleanField())
    return list(RelayLease.objects.filter(provider__in=providers).annotate(is_held=held))


def lease_of(leases: Sequence[RelayLease], provider: Provider, topic: str) -> RelayLease | None:
    """The lease of the shard that sends a topic: who holds it, or else whose share it is in."""
    ours = [lease for lease in leases if lease.provider_id == provider.pk]
    bucket = relay_shares.bucket(topic)
    holder = next((lease for lease in ours if bucket in lease.held), None)
    if holder is not None:
        return holder
    shard = relay_shares.shard_of(topic, provider.shards)
    return next((lease for lease in ours if lease.shard == shard), None)
