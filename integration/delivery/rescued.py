"""Rescued records as a source: read before Kafka's, as records of the topic at their offsets."""

from integration.delivery.batch_result import RUNNING
from integration.delivery.context import RunContext
from integration.delivery.owned import Owned
from integration.policy.states import PartitionState
from integration.values import Fetched


def take_rescued(context: RunContext, owned: Owned, fetched: Fetched) -> None:
    """Add the next rescued records of a partition to what was fetched, or go on to Kafka's.

    What comes after the last one of them in their range is no record, only markers: the position
    passes it, since Kafka may not have the offset any more.
    """
    records = context.repository.rescued(owned, context.queue.batch_size)
    if records:
        fetched.records[owned.partition] = list(records)
        return
    end = owned.up_to_stop(owned.rescued_until or owned.next_offset)
    if context.repository.state(owned, RUNNING, end):
        owned.next_offset = end
        owned.state, owned.state_code, owned.due = PartitionState.RUNNING, "", True
    else:
        owned.state, owned.due = PartitionState.BLOCKED, False
