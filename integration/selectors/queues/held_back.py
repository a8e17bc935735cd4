"""Whether an open transaction of somebody else keeps a partition that runs from going on."""

import shlex

from integration.kafka import grants
from integration.models import Queue, QueuePartition
from integration.policy.states import PartitionState
from integration.selectors.queues.status import Situation
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


def way_out(queue: Queue, partition: QueuePartition, found: Situation) -> Situation:
    """What was found, with the commands that tell whose transaction it is and that end it.

    The client library does not ask for producers and transactions; Kafka's own tool does.
    """
    begin = grants.as_administrator(queue.provider, "kafka-transactions.sh")
    place = ["--topic", queue.topic, "--partition", str(partition.partition)]
    start = ["--start-offset", str(partition.next_offset)]
    producers = shlex.join([*begin, "describe-producers", *place])
    ids = shlex.join([*begin, "list"])
    abort = shlex.join([*begin, "abort", *place, *start])
    step = (
        f"See whose it is: `{producers}` shows the producer id and `{ids}` its transactional id. "
        "Start that application again: that ends the transaction. Where it will not come back: "
        f"`{abort}`; what it wrote in the transaction is then never read."
    )
    return Situation(found.why, step)
