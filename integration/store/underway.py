"""What a living owner of a partition has begun, and nobody else could tell the end of.

Who works for what is left of partitions that are gone is fenced here before these begin again.
"""

from collections.abc import Collection

from django.db.models import Q

from integration.models import Delivery, MessageError, PartitionLease, QueuePartition
from integration.policy.states import OPEN, DeliveryState, ErrorState
from integration.store.sessions import database_now


def is_at_work(row: QueuePartition) -> bool:
    """Return whether its living owner sends or tries a message; a dead one's waits for nobody.

    The owner of the lowest partition works for what is left of those that are gone, too. To be
    called with the row locked: nothing begins until that is over.
    """
    here, present = Q(partition=row.partition), QueuePartition.objects.filter(queue=row.queue_id)
    if not present.filter(partition__lt=row.partition).exists():
        here |= ~Q(partition__in=present.values("partition"))
    begun = Q(queue=row.queue_id, epoch=row.epoch) & here
    calls = Delivery.objects.filter(begun, state=DeliveryState.SENDING)
    tries = MessageError.objects.filter(begun, state=ErrorState.PROCESSING)
    owners = PartitionLease.objects.filter(
        partition=row, released_at__isnull=True, lease_until__gt=database_now()
    )
    return (calls.exists() or tries.exists()) and owners.exists()


def fence_left(
    queue_id: int, partitions: Collection[int], *, skip_locked: bool = False
) -> int | None:
    """Fence the owner of the lowest partition where something is left of these, its work so far.

    What it has chosen, but not begun, is not its own any more: the owners of these try it. To be
    called in a transaction, before these begin. Returns None, or the number of the lowest partition
    where nobody is fenced: its owner is at work or, with `skip_locked`, somebody holds its row.
    """
    if not _is_anything_left(queue_id, partitions):
        return None
    present = QueuePartition.objects.filter(queue=queue_id).order_by("partition")
    number = present.values_list("partition", flat=True).first()
    if number is None:
        return None
    here = present.filter(partition=number)
    lowest = here.select_for_update(no_key=True, skip_locked=skip_locked).first()
    if lowest is None or is_at_work(lowest):
        return number
    here.update(epoch=lowest.epoch + 1)
    return None


def _is_anything_left(queue_id: int, partitions: Collection[int]) -> bool:
    """Return whether failures of these partitions are open, or calls for them outstanding."""
    left = Q(queue=queue_id, partition__in=partitions)
    calls = Delivery.objects.filter(left, state=DeliveryState.SENDING)
    return MessageError.objects.filter(left, state__in=OPEN).exists() or calls.exists()
