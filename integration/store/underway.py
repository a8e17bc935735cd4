"""What a living owner of a partition has begun, and nobody else could tell the end of."""

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


def is_anything_left(queue_id: int, partitions: Collection[int]) -> bool:
    """Return whether failures of these partitions are open, or calls for them outstanding."""
    left = Q(queue=queue_id, partition__in=partitions)
    calls = Delivery.objects.filter(left, state=DeliveryState.SENDING)
    return MessageError.objects.filter(left, state__in=OPEN).exists() or calls.exists()
