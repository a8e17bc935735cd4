"""What waits in the outbox for the topic of one outbound queue, and who sends it."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.db.models import Q

from integration.clock import database_now
from integration.models import OutboxRow, Queue, RelayLease
from integration.policy.states import OutboxKind, OutboxState

COUNT_CAP: Final = 10_000
SHARD: Final = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sending:
    """`waiting` and `refused` stop one above the cap; a person decides about refused ones."""

    waiting: int
    oldest_at: datetime | None
    refused: int
    owner: str
    seen_at: datetime | None
    in_doubt_since: datetime | None
    in_doubt_text: str

    @property
    def is_capped(self) -> bool:
        return self.waiting > COUNT_CAP

    @property
    def shown_waiting(self) -> int:
        return min(self.waiting, COUNT_CAP)


def sending(queue: Queue) -> Sending:
    """What an outbound queue has to send, in four queries that use the index of what is open."""
    still = OutboxRow.objects.filter(
        Q(state=OutboxState.PENDING) | Q(state=OutboxState.STAMPED),
        provider=queue.provider_id,
        shard=SHARD,
        topic=queue.topic,
        kind=OutboxKind.MESSAGE,
    )
    dead = OutboxRow.objects.filter(
        provider=queue.provider_id,
        topic=queue.topic,
        kind=OutboxKind.MESSAGE,
        state=OutboxState.DEAD,
    )
    lease = (
        RelayLease.objects.filter(provider=queue.provider_id, shard=SHARD)
        .annotate(is_held=Q(lease_until__gt=database_now()))
        .first()
    )
    return Sending(
        waiting=still.order_by()[: COUNT_CAP + 1].count(),
        oldest_at=still.order_by("id").values_list("created_at", flat=True).first(),
        refused=dead.order_by()[: COUNT_CAP + 1].count(),
        owner=lease.owner if lease is not None and lease.is_held else "",
        seen_at=None if lease is None else lease.seen_at,
        in_doubt_since=None if lease is None else lease.in_doubt_since,
        in_doubt_text="" if lease is None else lease.in_doubt_text,
    )
