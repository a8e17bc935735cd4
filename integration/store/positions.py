"""The first position of a queue's partitions."""

from collections.abc import Mapping

from django.utils import timezone

from integration.models import Queue, QueuePartition
from integration.policy.positions import do_keys_stay
from integration.store.sessions import alias
from integration.values import TopicFacts


def add_new_partitions(queue: Queue, facts: TopicFacts) -> list[QueuePartition] | None:
    """Rows for partitions that the topic got since; they start at the beginning, offset 0.

    What they held and has expired by now was for this queue, too: its run records the gap.

    Where keys keep their order they wait until the others are read up to where they end now: the
    messages of a key may have moved. None where keys have moved among the others.

    A sequential queue gets none (its order would be lost), nor does a queue whose topic was
    recreated: these are for the engine to block.
    """
    present = list(queue.partitions.all())
    if queue.needs_one_partition or any(row.topic_uuid != facts.topic_uuid for row in present):
        return []
    new = facts.low.keys() - {row.partition for row in present}
    by_key = queue.keeps_keys_in_order
    if by_key and new and present and not do_keys_stay(len(present), facts.partitions):
        return None
    after = {str(row.partition): facts.high[row.partition] for row in present}
    first = dict.fromkeys(sorted(new), 0)
    return store_positions(queue, facts, first, begins_after=after if by_key else None)


def store_positions(
    queue: Queue,
    facts: TopicFacts,
    offsets: Mapping[int, int],
    *,
    begins_after: Mapping[str, int] | None = None,
) -> list[QueuePartition]:
    """A row for each partition in `offsets`, by partition; rows that exist stay as they are.

    What waits at a JMS broker nobody knows: its ends are made up, and not written down.
    """
    now = timezone.now()
    low, high = ({}, {}) if queue.provider.is_jms else (facts.low, facts.high)
    rows = [
        QueuePartition(
            queue=queue,
            partition=partition,
            topic_uuid=facts.topic_uuid,
            next_offset=offset,
            begins_after=begins_after,
            state_since=now,
            low_watermark=low.get(partition),
            high_watermark=high.get(partition),
            seen_at=now,
        )
        for partition, offset in sorted(offsets.items())
    ]
    # Another run may have seen the same new partition at the same moment.
    QueuePartition.objects.using(alias()).bulk_create(rows, ignore_conflicts=True)
    partitions = [row.partition for row in rows]
    return list(queue.partitions.filter(partition__in=partitions).order_by("partition"))
