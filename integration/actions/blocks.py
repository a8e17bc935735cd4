"""The ways on for what a topic's change holds up: gaps, another topic, partitions added."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final
from uuid import UUID, uuid4

from django.db.models import F, Sum

from integration.actions import failures
from integration.actions.configuration import Author
from integration.actions.errors import QueueMismatchError, StillSendingError, TopicAbsentError
from integration.actions.generations import begin_generations
from integration.actions.queues import (
    NO_STOP,
    NO_SUSPECT,
    NOTHING_OPEN,
    RUNNING,
    WAITS_NO_MORE,
    lock,
    note,
)
from integration.actions.transaction import short_transaction
from integration.counting import so_many
from integration.models import Delivery, Gap, MessageError, Queue, QueuePartition, SeenMessage
from integration.policy.states import PartitionState
from integration.store.positions import store_positions, wait_no_more_for, wait_up_to
from integration.store.sessions import database_now
from integration.store.starts import leave_request
from integration.store.underway import fence_left
from integration.values import TopicFacts

TOPIC_CODES: Final = frozenset({"TOPIC_RECREATED", "TOPIC_TRUNCATED", "TOPIC_GONE"})
GAP_CODE: Final = "GAP"


class Place(StrEnum):
    """The place to go on in a topic that was recreated or truncated."""

    START = "start"
    END = "end"


def acknowledge_gap(
    gap_id: UUID, *, actor: str, reason: str = "", queue_id: int | None = None
) -> None:
    """Take note that messages expired untried; the partition goes on when it was the last one.

    With `queue_id` a gap of another queue counts as not recorded. Raises QueueMismatchError when
    somebody acknowledged it before, RowBusyError.
    """
    with short_transaction():
        gap = Gap.objects.select_related("partition").filter(pk=gap_id).first()
        if gap is None or queue_id not in {None, gap.partition.queue_id}:
            raise QueueMismatchError("This gap is not recorded any more.")
        place = gap.partition
        taken = Gap.objects.filter(pk=gap_id, acknowledged_at__isnull=True).update(
            acknowledged_at=database_now(), acknowledged_by=actor
        )
        if not taken:
            raise QueueMismatchError(f"The gap was already acknowledged by {gap.acknowledged_by}.")
        if not place.gaps.filter(acknowledged_at__isnull=True).exists():
            blocked = QueuePartition.objects.filter(
                pk=place.pk, state=PartitionState.BLOCKED, state_code=GAP_CODE
            )
            blocked.update(**RUNNING)
        effect = (
            f"Offsets {gap.from_offset:,} to {gap.to_offset - 1:,} are known to be lost untried."
        )
        note(
            place.queue_id,
            actor,
            "acknowledge gap",
            reason=reason,
            effect=effect,
            partition=place.partition,
        )
    leave_request(place.queue_id)


def adopt(
    queue_id: int, *, place: Place, facts: TopicFacts | None, actor: str, reason: str = ""
) -> int:
    """Go on with the topic as it is now, from its start or its end; returns partitions decided.

    Every partition blocked for its topic gets the new identity, position and epoch, so that an
    owner that still runs is fenced. What is left untried is recorded as a gap, acknowledged by
    `actor`. Partitions that a topic made anew lacks are given up. `facts` is what the broker says
    now. A queue at a JMS broker goes on where it stands, with whatever failed there. Raises
    TopicAbsentError, QueueMismatchError, StillSendingError, RowBusyError.
    """
    queue = Queue.objects.select_related("provider").get(pk=queue_id)
    if facts is None:
        raise TopicAbsentError(topic=queue.topic)
    with short_transaction():
        lock(queue_id)
        blocked = _blocked_by_topic(queue_id)
        if not blocked:
            raise QueueMismatchError("No partition is blocked for its topic any more.")
        decided = [row for row in blocked if _may_decide(row, facts)]
        if not decided:
            raise QueueMismatchError(f"The topic {queue.topic} does not have these partitions.")
        begin_generations(queue_id, decided, facts)
        for row in decided:
            if queue.provider.is_jms:
                effect = _go_on(row)
            else:
                _hold_passed(row, place, facts, Author(actor, reason))
                effect = _adopt_one(row, place, facts, actor)
            note(
                queue_id,
                actor,
                f"adopt from {place}",
                reason=reason,
                effect=effect,
                partition=row.partition,
            )
        _begin_further(queue, decided, place, facts, Author(actor, reason))
    leave_request(queue_id)
    return len(decided)


def begin_sooner(queue_id: int, *, actor: str, reason: str = "") -> None:
    """Take a person's word that all producers know the partitions that were added.

    These are read once the others are read up to where they end now, however late an old producer
    writes. Raises QueueMismatchError where none waits for that, RowBusyError.
    """
    with short_transaction():
        waiting = QueuePartition.objects.filter(
            queue=queue_id, begins_after__isnull=False, producers_know_at__gt=database_now()
        )
        if not waiting.update(producers_know_at=database_now()):
            raise QueueMismatchError("No partition waits for producers to know of it any more.")
        effect = "Added partitions begin once the others are read up to where they end now."
        note(queue_id, actor, "begin sooner", reason=reason, effect=effect)
    leave_request(queue_id)


def stay_blocked(queue_id: int, *, actor: str, reason: str = "") -> None:
    """Record the decision to leave the queue blocked for now; nothing else changes.

    Raises QueueMismatchError.
    """
    with short_transaction():
        if not QueuePartition.objects.filter(queue=queue_id, state=PartitionState.BLOCKED).exists():
            raise QueueMismatchError("The queue is not blocked any more.")
        note(queue_id, actor, "stay blocked", reason=reason, effect="The queue stays blocked.")


def _blocked_by_topic(queue_id: int) -> list[QueuePartition]:
    return list(
        QueuePartition.objects.select_for_update()
        .filter(queue=queue_id, state=PartitionState.BLOCKED, state_code__in=TOPIC_CODES)
        .order_by("partition")
    )


def _may_decide(row: QueuePartition, facts: TopicFacts) -> bool:
    """Return whether the topic has the partition, or is another one, which has no such partition.

    No topic ever loses a partition: one that is the same has it, and could not tell of it now.
    """
    return row.partition in facts.low or row.topic_uuid != facts.topic_uuid


def _begin_further(
    queue: Queue, decided: Sequence[QueuePartition], place: Place, facts: TopicFacts, by: Author
) -> None:
    """Begin further partitions of a topic made anew at the chosen place, as the others of it.

    Only a topic that is the same can have got them since: then they are read from their beginning.
    Where partitions are adopted one by one, the last one tells. Raises StillSendingError.
    """
    present = list(queue.partitions.all())
    numbers = facts.low.keys() - {row.partition for row in present}
    is_same = all(row.topic_uuid == facts.topic_uuid for row in decided)
    has_others = any(row.topic_uuid != facts.topic_uuid for row in present)
    if is_same or has_others or queue.needs_one_partition:
        return
    if (at_work := fence_left(queue.pk, numbers)) is not None:
        raise StillSendingError(partition=at_work)
    starts, ranks = _starts(place, facts), [*decided, *queue.partitions.all()]
    further = store_positions(
        queue,
        facts,
        {partition: starts[partition] for partition in numbers},
        generation=max(row.generation for row in ranks),
        epoch=max(row.epoch for row in ranks),
    )
    for row in further:
        if place is Place.END:
            ends, why = (facts.low[row.partition], row.next_offset), decided[0].state_code
            record_gap(row, row.topic_uuid, ends, by=by.actor, reason=why)
        effect = f"The topic before had no such partition: its position is {row.next_offset:,}."
        note(
            queue.pk,
            by.actor,
            f"adopt from {place}",
            reason=by.reason,
            effect=effect,
            partition=row.partition,
        )


def _go_on(row: QueuePartition) -> str:
    """At a JMS broker no other message gets these offsets: what failed at them stays as it is."""
    move_position(row, row.next_offset)
    return f"The queue goes on at its position, {row.next_offset:,}."


def _adopt_one(row: QueuePartition, place: Place, facts: TopicFacts, actor: str) -> str:
    if row.partition not in facts.low:
        return _give_up(row)
    low, high = facts.low[row.partition], facts.high[row.partition]
    offset = _start(row, place, facts)
    _record_untried(row, place, facts, actor)
    lost = _set_apart(row, _kept_until(row, facts)) if facts.topic_uuid == row.topic_uuid else 0
    # What is read again is sent again.
    Delivery.objects.filter(
        queue=row.queue_id,
        partition=row.partition,
        topic_uuid=facts.topic_uuid,
        offset__gte=offset,
    ).update(topic_uuid="")
    uuid, given_up = facts.topic_uuid, _give_up_rescued(row)
    ends: dict[str, object] = {"low_watermark": low, "high_watermark": high}
    # What was done ahead of the position may be of messages that the topic lost.
    more: dict[str, object] = {**ends, **NOTHING_OPEN, "generation": row.generation}
    if not _keeps_suspect(row, facts):
        more |= NO_SUSPECT
    if uuid == row.topic_uuid:
        # As the table has it now: another partition that is adopted may have changed it.
        more |= {name: F(name) for name in WAITS_NO_MORE}
    move_position(row, offset, topic_uuid=uuid, rescued_to=None, **more)
    wait_up_to(row, high)
    effect = f"The position went from {row.next_offset:,} to {offset:,} of the topic as it is now."
    if given_up:
        effect += f" {so_many(given_up, 'rescued message')} of the topic before are given up."
    if lost:
        effect += f" {so_many(lost, 'failure is', 'failures are')} of messages that the topic lost."
    return effect


def _record_untried(row: QueuePartition, place: Place, facts: TopicFacts, actor: str) -> None:
    """Record what nobody will try: the rest of a topic that is no more, and what is passed."""
    first, until = facts.low[row.partition], _start(row, place, facts)
    if facts.topic_uuid == row.topic_uuid:
        # From its start, too: what came after that and has expired.
        first = min(row.next_offset, _kept_until(row, facts))
        # What was done at offsets that other messages have now does not stand for these.
        row.done_offsets = [at for at in row.done_offsets if at < _kept_until(row, facts)]
    elif row.high_watermark is not None:
        record_gap(row, row.topic_uuid, (row.next_offset, row.high_watermark), by=actor)
    if first < until:
        record_gap(row, facts.topic_uuid, (first, until), by=actor)


def _give_up(row: QueuePartition) -> str:
    """Remove the position of a partition that is no more; whoever has the lowest tries its rows.

    Left there, it would be blocked for ever, and be no part of the topic for whoever compares them.
    Its gaps go with it: of what nobody tried the history tells.
    """
    end = max(row.next_offset, row.high_watermark or 0)
    untried = sum(after - first for first, after in row.untried(row.next_offset, end))
    effect = f"The topic as it is now has no such partition: the position, {row.next_offset:,}, "
    effect += f"is given up, with {so_many(untried, 'offset')} before its end that nobody tried."
    if given_up := _give_up_rescued(row):
        effect += f" {so_many(given_up, 'rescued message')} of them are given up."
    unknown = row.gaps.filter(acknowledged_at__isnull=True)
    if lost := unknown.aggregate(count=Sum(F("to_offset") - F("from_offset")))["count"]:
        effect += f" {so_many(lost, 'offset')} of gaps that nobody had acknowledged go with it."
    row.delete()
    return effect


def _starts(place: Place, facts: TopicFacts) -> Mapping[int, int]:
    return facts.low if place is Place.START else facts.high


def _start(row: QueuePartition, place: Place, facts: TopicFacts) -> int:
    return _starts(place, facts)[row.partition]


def _kept_until(row: QueuePartition, facts: TopicFacts) -> int:
    """Return up to where the topic still has what was read of it; it may have grown since."""
    end = facts.high[row.partition]
    return end if row.lost_from is None else min(end, row.lost_from)


def _keeps_suspect(row: QueuePartition, facts: TopicFacts) -> bool:
    """Return whether the topic still has the message that work died on; another has its offset."""
    at, is_same = row.suspect_offset, facts.topic_uuid == row.topic_uuid
    return is_same and at is not None and at < _kept_until(row, facts)


def _hold_passed(row: QueuePartition, place: Place, facts: TopicFacts, by: Author) -> None:
    """In order, failures at or beyond the old position waited there: but for those met again."""
    if not row.queue.keeps_order:
        return
    passed = failures.at_offsets(row, row.next_offset)
    if facts.topic_uuid == row.topic_uuid:
        met_again = _start(row, place, facts), _kept_until(row, facts) - 1
        passed = passed.exclude(offset__range=met_again)
    failures.hold_passed(passed, actor=by.actor, reason=by.reason)


def _set_apart(row: QueuePartition, end: int) -> int:
    """Give failures from where the topic ended on a topic of their own; returns how many.

    Their offsets are given to other messages, about which neither they nor what was delivered
    under these offsets say anything. Their own calls stay with them.
    """
    own = str(uuid4())
    lost = {
        "queue": row.queue_id,
        "topic_uuid": row.topic_uuid,
        "partition": row.partition,
        "offset__gte": end,
    }
    Delivery.objects.filter(**lost).update(topic_uuid=own)
    SeenMessage.objects.filter(**lost).update(topic_uuid=own)
    return MessageError.objects.filter(**lost).update(topic_uuid=own, version=F("version") + 1)


def _give_up_rescued(row: QueuePartition) -> int:
    """Their offsets belong to other messages now; returns how many nobody had tried.

    The next rescue removes what is in no range any more.
    """
    untried = row.rescues.filter(to_offset__gt=row.next_offset).aggregate(count=Sum("records"))
    row.rescues.update(from_offset=F("to_offset"))
    return int(untried["count"] or 0)


def move_position(row: QueuePartition, offset: int, **more: object) -> None:
    """Go on at another offset, with no stop or wait before it, and fence whoever still runs."""
    values = {**RUNNING, **NO_STOP, **WAITS_NO_MORE, **more, "next_offset": offset}
    values |= {"epoch": F("epoch") + 1, "lost_from": None, "moved_at": database_now()}
    is_other_topic = more.get("topic_uuid", row.topic_uuid) != row.topic_uuid
    values["moved_from"] = None if is_other_topic else row.next_offset
    values["moves_before"] = None if is_other_topic else _moves_before(row, offset)
    if offset < row.next_offset or is_other_topic:
        # What was done ahead of the position is done again with the rest.
        values |= NOTHING_OPEN
    QueuePartition.objects.filter(pk=row.pk).update(**values)
    if is_other_topic:
        # Where it is the same, what an added partition waits for is still to come, or skipped.
        wait_no_more_for(row)


def _moves_before(row: QueuePartition, offset: int) -> list[dict[str, object]] | None:
    """The earlier moves from beyond both ends of this one: they still tell what is read again.

    Of what lies before those ends this move tells, or the position never comes to it.
    """
    known = list(row.moves_before or ())
    if row.moved_at is not None and row.moved_from is not None:
        known.insert(0, {"at": row.moved_at.isoformat(), "until": row.moved_from})
    return [move for move in known if move["until"] > max(offset, row.next_offset)] or None


def record_gap(
    row: QueuePartition, topic_uuid: str, offsets: tuple[int, int], *, by: str, reason: str = ""
) -> None:
    """Nothing is passed silently: `offsets` is (first, first after), and `by` knows of them.

    What is done among them already is no gap.
    """
    for first, after in row.untried(*offsets) if topic_uuid == row.topic_uuid else [offsets]:
        Gap.objects.create(
            partition=row,
            topic_uuid=topic_uuid,
            from_offset=first,
            to_offset=after,
            reason=reason or row.state_code,
            found_at=database_now(),
            acknowledged_at=database_now(),
            acknowledged_by=by,
        )
