"""What a living owner of a partition has begun, and nobody else could tell the end of."""

from collections.abc import Collection

from django.db.models import Q

from integration.actions.errors import StillSendingError
from integration.models import Delivery, MessageError, PartitionLease, QueuePartition
from integration.policy.states import OPEN, DeliveryState, ErrorState
from integration.store.sessions import database_now


def refuse_under_way(row: QueuePartition) -> None:
    """Let no position be moved or given up meanwhile; what a dead owner began waits for nobody.

    To be called with the row locked: no call begins until that is over. Raises StillSendingError.
    """
    here, present = Q(partition=row.partition), QueuePartition.objects.filter(queue=row.queue_id)
    if not present.filter(partition__lt=row.partition).exists():
        # The owner of the lowest works for what is left of those that are gone.
        here |= ~Q(partition__in=present.values("partition"))
    owners = PartitionLease.objects.filter(
        partition=row, released_at__isnull=True, lease_until__gt=database_now()
    )
    begun = Q(queue=row.queue_id, epoch=row.epoch) & here
    calls = Delivery.objects.filter(begun, state=DeliveryState.SENDING)
    tries = MessageError.objects.filter(begun, state=ErrorState.PROCESSING)
    if (calls.exists() or tries.exists()) and owners.exists():
        raise StillSendingError(partition=row.partition)


def fence_left(queue_id: int, partitions: Collection[int]) -> None:
    """Let the owner of the lowest partition begin no failure that is left of these any more.

    To be called before they begin: their own owners try it. Raises StillSendingError.
    """
    left = Q(queue=queue_id, partition__in=partitions)
    calls = Delivery.objects.filter(left, state=DeliveryState.SENDING)
    if not (MessageError.objects.filter(left, state__in=OPEN).exists() or calls.exists()):
        return
    rows = QueuePartition.objects.select_for_update().filter(queue=queue_id)
    lowest = rows.order_by("partition").first()
    if lowest is not None:
        refuse_under_way(lowest)
        QueuePartition.objects.filter(pk=lowest.pk).update(epoch=lowest.epoch + 1)
