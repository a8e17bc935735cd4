"""Requests to work up to an offset, or to what is there now, and then to pause."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from django.db.models import Max

from integration.actions.errors import QueueMismatchError, StopPassedError
from integration.actions.queues import NO_STOP, PAUSE_ENDED, lock, note, refuse_jms, refuse_outbound
from integration.actions.transaction import short_transaction
from integration.counting import listed
from integration.kafka.errors import TopicUnknownError
from integration.models import Delivery, Queue, QueuePartition
from integration.store.queue_stops import DRAIN
from integration.store.starts import leave_request
from integration.values import TopicFacts

STOP: Final = "stop at offset"
CANCEL: Final = "cancel stop"
PLACES_TOLD: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Who asks for what, of one partition or of all."""

    action: str
    actor: str
    reason: str
    partition: int | None


def drain(
    queue_id: int,
    *,
    facts: TopicFacts | None,
    actor: str,
    reason: str = "",
    partition: int | None = None,
) -> str:
    """Work until what is in the topic now is through, then pause; returns what was decided.

    `facts` is what the broker says now: committed messages up to its stable end count. Messages
    that wait for a retry, are released or held are no part of it. A pause is taken away. Raises
    TopicUnknownError, QueueMismatchError, OutboundQueueError, RowBusyError.
    """
    queue = Queue.objects.select_related("provider").get(pk=queue_id)
    if facts is None:
        raise TopicUnknownError(queue.provider.name, queue.topic)
    request = Request(action=DRAIN, actor=actor, reason=reason, partition=partition)

    def end_of(row: QueuePartition) -> int:
        if row.topic_uuid != facts.topic_uuid or row.partition not in facts.high:
            raise QueueMismatchError(
                f"The position of partition {row.partition} is not one of the topic as it is now."
            )
        # What was read and is under way by now was there, too.
        return max(facts.high[row.partition], _earliest(row))

    return _set(queue_id, request, end_of)


def stop_at(
    queue_id: int, offset: int, *, actor: str, reason: str = "", partition: int | None = None
) -> str:
    """Work up to an offset, without the record there, then pause; returns what was decided.

    It may lie beyond the topic's end. A pause is taken away. Raises StopPassedError,
    QueueMismatchError, OutboundQueueError, RowBusyError.
    """
    request = Request(action=STOP, actor=actor, reason=reason, partition=partition)

    def given(row: QueuePartition) -> int:
        earliest = _earliest(row)
        if offset < earliest:
            raise StopPassedError(partition=row.partition, offset=offset, earliest=earliest)
        return offset

    return _set(queue_id, request, given)


def cancel(queue_id: int, *, actor: str, reason: str = "") -> None:
    """Let the queue go on beyond every stop; a pause stays. Raises QueueMismatchError."""
    refuse_outbound(queue_id)
    with short_transaction():
        lock(queue_id)
        stops = QueuePartition.objects.filter(queue=queue_id, stop_at__isnull=False)
        if stops.update(**NO_STOP) == 0:
            raise QueueMismatchError("The queue is not told to stop anywhere.")
        note(queue_id, actor, CANCEL, reason=reason, effect="It stops nowhere any more.")
    leave_request(queue_id)


def _set(queue_id: int, request: Request, stop_of: Callable[[QueuePartition], int]) -> str:
    refuse_outbound(queue_id)
    refuse_jms(queue_id)
    with short_transaction():
        was_paused = lock(queue_id).paused
        stops = [(row, stop_of(row)) for row in _places(queue_id, request.partition)]
        effect = _told(stops)
        if was_paused:
            Queue.objects.filter(pk=queue_id).update(
                paused=False, pause_reason="", paused_until=None
            )
            effect += f" {PAUSE_ENDED}"
        change = note(
            queue_id,
            request.actor,
            request.action,
            reason=request.reason,
            effect=effect,
            partition=request.partition,
        )
        for row, stop in stops:
            same = QueuePartition.objects.filter(pk=row.pk)
            same.update(stop_at=stop, stop_request=change.pk)
    leave_request(queue_id)
    return effect


def _places(queue_id: int, partition: int | None) -> list[QueuePartition]:
    """The partitions meant, their rows locked: no commit changes them meanwhile."""
    rows = QueuePartition.objects.select_for_update().filter(queue=queue_id).order_by("partition")
    places = list(rows if partition is None else rows.filter(partition=partition))
    if not places:
        raise QueueMismatchError(
            "The queue has no position yet."
            if partition is None
            else f"The queue has no partition {partition}."
        )
    return places


def _earliest(row: QueuePartition) -> int:
    """The first offset that nothing at or beyond it is applied yet, nor on its way."""
    calls = Delivery.objects.filter(
        queue=row.queue_id,
        partition=row.partition,
        topic_uuid=row.topic_uuid,
        offset__gte=row.next_offset,
        epoch=row.epoch,
        error__isnull=True,
    )
    last = calls.aggregate(last=Max("offset"))["last"]
    through = [offset + 1 for offset in row.done_ahead]
    return max([row.next_offset, *through, *([] if last is None else [int(last) + 1])])


def _told(stops: Sequence[tuple[QueuePartition, int]]) -> str:
    """One sentence: "It pauses at offset 1,200 of partition 0 and 800 of partition 1."."""
    places = [f"{stop:,} of partition {row.partition}" for row, stop in stops]
    return f"It pauses at offset {listed(places, PLACES_TOLD)}."
