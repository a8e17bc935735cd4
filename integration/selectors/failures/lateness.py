"""Whether releasing a failure would put it behind messages that came after it, and why."""

from integration.models import MessageError, Queue, QueuePartition


def keeps_order(queue: Queue) -> bool:
    """Whether a held message stops the ones behind it, so that passing it makes it late."""
    return queue.is_sequential and (queue.strict_order or not queue.is_error_queue)


def why_late(error: MessageError, queue: Queue, partition: QueuePartition | None) -> str | None:
    """Return one sentence, or None where a release keeps the order or the queue has none."""
    if not keeps_order(queue):
        return None
    if partition is None or partition.topic_uuid != error.topic_uuid:
        return "The topic was created anew since it failed; newer messages may be applied already."
    if error.offset < partition.next_offset:
        return (
            f"The queue has gone on: it stands at offset {partition.next_offset:,}, "
            f"and this message was at {error.offset:,}."
        )
    if error.expired_at is not None and queue.on_head_expired == Queue.OnHeadExpired.ADVANCE:
        return "Kafka no longer has this message; the queue goes on without it."
    return None
