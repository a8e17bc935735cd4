"""The refusal to move a position under whoever has begun something there."""

from collections.abc import Collection

from integration.actions.errors import StillSendingError
from integration.models import QueuePartition
from integration.store.underway import is_anything_left, is_at_work


def refuse_under_way(row: QueuePartition) -> None:
    """Let no position be moved or given up meanwhile; what a dead owner began waits for nobody.

    To be called with the row locked: no call begins until that is over. Raises StillSendingError.
    """
    if is_at_work(row):
        raise StillSendingError(partition=row.partition)


def fence_left(queue_id: int, partitions: Collection[int]) -> None:
    """Let the owner of the lowest partition begin no failure that is left of these any more.

    To be called before they begin: their own owners try it. Raises StillSendingError.
    """
    if not is_anything_left(queue_id, partitions):
        return
    rows = QueuePartition.objects.select_for_update().filter(queue=queue_id)
    lowest = rows.order_by("partition").first()
    if lowest is not None:
        refuse_under_way(lowest)
        QueuePartition.objects.filter(pk=lowest.pk).update(epoch=lowest.epoch + 1)
