"""What tells messages apart that get the same offsets: generations, where a topic is adopted."""

from collections.abc import Sequence

from django.db.models import F

from integration.actions.errors import StillSendingError
from integration.actions.underway import refuse_under_way
from integration.models import Delivery, QueuePartition
from integration.store.underway import is_at_work
from integration.values import TopicFacts


def begin_generations(queue_id: int, rows: Sequence[QueuePartition], facts: TopicFacts) -> None:
    """Count a generation on where offsets are given to other messages, for ids made of them.

    Some partition gets a higher one than those that are given up. Raises StillSendingError.
    """
    kept = [row for row in rows if row.partition in facts.low]
    gone = [row for row in rows if row.partition not in facts.low]
    given_up = max((row.generation for row in gone), default=-1)
    if gone:
        _outrank(queue_id, gone)
    for row in kept:
        if _has_other_messages(row, facts):
            row.generation = max(row.generation, given_up) + 1
    decided = [row.pk for row in rows]
    others = QueuePartition.objects.filter(queue=queue_id).exclude(pk__in=decided)
    present = [*kept, *others.order_by("partition")]
    if all(row.generation <= given_up for row in present):
        _raise_one(present, given_up + 1, facts)


def _raise_one(rows: Sequence[QueuePartition], generation: int, facts: TopicFacts) -> None:
    """A partition that the topic gets later begins with the highest: it may be one given up.

    Where messages stay, they get other ids by it: so one that still has those of another topic.
    Its owner gives them the ids of before until it is fenced. Raises StillSendingError.
    """
    in_order = sorted(rows, key=lambda row: row.topic_uuid == facts.topic_uuid)
    for row in in_order:
        here = QueuePartition.objects.filter(pk=row.pk)
        locked = here.select_for_update(no_key=True).get()
        has_begun = locked.topic_uuid == facts.topic_uuid and _has_called_ahead(locked)
        if not has_begun and not is_at_work(locked):
            here.update(generation=generation, epoch=F("epoch") + 1)
            row.generation = generation
            return
    if in_order:
        raise StillSendingError(partition=in_order[0].partition)


def _has_called_ahead(row: QueuePartition) -> bool:
    """Return whether calls were made for messages that are read again, and are told by their ids.

    Under another id one that was delivered would be sent again, and a partner could not tell the
    second call from another message.
    """
    here = Delivery.objects.filter(queue=row.queue_id, partition=row.partition)
    return here.filter(topic_uuid=row.topic_uuid, offset__gte=row.next_offset).exists()


def _outrank(queue_id: int, gone: Sequence[QueuePartition]) -> None:
    """Let those that remain have higher epochs than those that are given up.

    The owner of the lowest works for what is left of these: it takes that for a dead owner's only
    with a higher epoch. Whoever holds one that is raised is fenced. Raises StillSendingError.
    """
    epoch = max(row.epoch for row in gone)
    rest = QueuePartition.objects.filter(queue=queue_id).exclude(pk__in=[row.pk for row in gone])
    raised = list(rest.filter(epoch__lte=epoch).select_for_update().order_by("partition"))
    for row in (*gone, *raised):
        refuse_under_way(row)
    rest.filter(pk__in=[row.pk for row in raised]).update(epoch=epoch + 1)


def _has_other_messages(row: QueuePartition, facts: TopicFacts) -> bool:
    """Return whether offsets that were read are, or will be, those of other messages."""
    has_lost = row.state_code == "TOPIC_TRUNCATED" or row.lost_from is not None
    is_shorter = has_lost or facts.high[row.partition] < row.next_offset
    return is_shorter or facts.topic_uuid != row.topic_uuid
