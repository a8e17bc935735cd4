"""What a living owner of a partition has begun, and nobody else could tell the end of."""

from django.db.models import Q

from integration.actions.errors import StillSendingError
from integration.models import Delivery, MessageError, PartitionLease, QueuePartition
from integration.policy.states import DeliveryState, ErrorState
from integration.store.sessions import database_now


def refuse_under_way(row: QueuePartition) -> None:
    """Let no position be moved or given up meanwhile; what a dead owner began waits for nobody.

    To be called with the row locked: no call begins until that is over. Raises StillSendingError.
    """
    owners = PartitionLease.objects.filter(
        partition=row, released_at__isnull=True, lease_until__gt=database_now()
    )
    here = Q(queue=row.queue_id, partition=row.partition, epoch=row.epoch)
    calls = Delivery.objects.filter(here, state=DeliveryState.SENDING)
    tries = MessageError.objects.filter(here, state=ErrorState.PROCESSING)
    if (calls.exists() or tries.exists()) and owners.exists():
        raise StillSendingError(partition=row.partition)
