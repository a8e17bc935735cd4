"""The refusal to move a position under whoever has begun something there."""

from integration.actions.errors import StillSendingError
from integration.models import QueuePartition
from integration.store.underway import is_at_work


def refuse_under_way(row: QueuePartition) -> None:
    """Let no position be moved or given up meanwhile; what a dead owner began waits for nobody.

    To be called with the row locked: no call begins until that is over. Raises StillSendingError.
    """
    if is_at_work(row):
        raise StillSendingError(partition=row.partition)
