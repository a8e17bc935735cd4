"""Whether an open transaction of somebody else keeps a partition that runs from going on."""

from integration.delivery.policy.states import PartitionState
from integration.models import QueuePartition
from integration.store.stable_ends import CODES, TRANSACTION_HANGS


def noted(partition: QueuePartition) -> str:
    """The code of the transaction at which the position stands; empty when there is none.

    As soon as the position or the topic's stable end moves, what was noted counts no more.
    """
    if partition.state != PartitionState.RUNNING or partition.state_code not in CODES:
        return ""
    return partition.state_code if partition.next_offset == partition.high_watermark else ""


def is_held_back(partition: QueuePartition) -> bool:
    """Whether it has lasted longer than the lag monitor waits before it is told."""
    return noted(partition) == TRANSACTION_HANGS
