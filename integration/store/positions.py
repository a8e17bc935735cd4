"""The first position of a queue's partitions, and what a partition that was added waits for."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from django.db import transaction
from django.db.models import Max
from django.utils import timezone

from integration.delivery.added import Addition
from integration.models import Queue, QueuePartition
from integration.policy.positions import PRODUCERS_KNOW_SECONDS, do_keys_stay
from integration.store.sessions import alias, database_time, execute, guarded
from integration.store.starts import leave_request
from integration.store.underway import fence_left
from integration.values import TopicFacts

_WAIT_NO_MORE_FOR: Final = """
UPDATE integration_queuepartition SET begins_after = begins_after - %s::text
WHERE queue_id = %s AND id <> %s AND begins_after IS NOT NULL
"""
_WAIT_UP_TO: Final = """
UPDATE integration_queuepartition
SET begins_after = jsonb_set(begins_after, ARRAY[%(partition)s::text], to_jsonb(%(end)s::bigint))
WHERE queue_id = %(queue)s AND id <> %(id)s
  AND (begins_after ->> %(partition)s::text)::bigint > %(end)s
"""


def add_partitions(queue_id: int, facts: TopicFacts) -> Addition:
    """Add them to the queue of a run, unless it was deleted. Raises LostError."""
    with guarded():
        present = QueuePartition.objects.filter(queue=queue_id)
        if facts.low.keys() <= set(present.values_list("partition", flat=True)):
            # What nearly each run finds, before its first message: no model is built for it.
            return Addition.DONE
        queue = Queue.objects.filter(pk=queue_id).first()
        return Addition.DONE if queue is None else add_new_partitions(queue, facts)


def add_new_partitions(queue: Queue, facts: TopicFacts) -> Addition:
    """Rows for partitions that the topic got since; they start at the beginning, offset 0.

    What they held and has expired by now was for this queue, too: its run records the gap.

    Where keys keep their order they wait until the others are read up to where they end once all
    producers know of them: the messages of a key may have moved.

    A sequential queue gets none (its order would be lost), nor does a queue whose topic was
    recreated: these are for the engine to block.
    """
    present = list(queue.partitions.order_by("partition"))
    if queue.needs_one_partition or any(row.topic_uuid != facts.topic_uuid for row in present):
        return Addition.DONE
    new = facts.low.keys() - {row.partition for row in present}
    by_key = queue.keeps_keys_in_order
    if by_key and new and present and not do_keys_stay(len(present), facts.partitions):
        return Addition.KEYS_MOVED
    if not new:
        return Addition.DONE
    after = {str(row.partition): facts.high[row.partition] for row in present}
    with transaction.atomic(using=alias()):
        if fence_left(queue.pk, new, skip_locked=True) is not None:
            return Addition.LATER
        # What is left of one is taken for a dead owner's only with a higher epoch.
        epoch = queue.partitions.aggregate(highest=Max("epoch"))["highest"] or 0
        # One that the topic has had before, and has again, gives its offsets to other messages.
        generation = max((row.generation for row in present), default=0)
        first, waits = dict.fromkeys(sorted(new), 0), after if by_key else None
        store_positions(queue, facts, first, begins_after=waits, generation=generation, epoch=epoch)
    if present:
        # A run may have been fenced. Asked for after the transaction: whoever has locked the queue
        # may be waiting for a partition.
        leave_request(queue.pk)
    return Addition.DONE


def store_positions(
    queue: Queue,
    facts: TopicFacts,
    offsets: Mapping[int, int],
    *,
    begins_after: Mapping[str, int] | None = None,
    generation: int = 0,
    epoch: int = 0,
) -> list[QueuePartition]:
    """A row for each partition in `offsets`, by partition; rows that exist stay as they are.

    Those that begin after others give producers their time to notice them from now on. What waits
    at a JMS broker nobody knows: its ends are made up, and not written down.
    """
    now, know_at = timezone.now(), None
    if begins_after is not None and offsets:
        know_at = database_time() + timedelta(seconds=PRODUCERS_KNOW_SECONDS)
    low, high = ({}, {}) if queue.provider.is_jms else (facts.low, facts.high)
    rows = [
        QueuePartition(
            queue=queue,
            partition=partition,
            topic_uuid=facts.topic_uuid,
            generation=generation,
            epoch=epoch,
            next_offset=offset,
            begins_after=begins_after,
            producers_know_at=know_at,
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


def wait_no_more_for(row: QueuePartition) -> None:
    """Let no partition of the queue that was added wait for this one any more."""
    execute(_WAIT_NO_MORE_FOR, [str(row.partition), row.queue_id, row.pk])


def wait_up_to(row: QueuePartition, end: int) -> None:
    """Let no partition of the queue that was added wait for this one beyond its end: it lost it."""
    here = {"partition": str(row.partition), "queue": row.queue_id, "id": row.pk, "end": end}
    execute(_WAIT_UP_TO, here)
