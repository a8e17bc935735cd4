"""The position moved by a person: back, to read messages again, or forward, to skip some."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.db.models import Max

from integration.actions import failures
from integration.actions.blocks import TOPIC_CODES, move_position, record_gap
from integration.actions.errors import (
    NotPausedError,
    OffsetOutsideError,
    PositionMovedError,
    QueueMismatchError,
    ReasonMissingError,
)
from integration.actions.queues import RUNNING, lock, note, refuse_jms, refuse_outbound
from integration.actions.transaction import short_transaction
from integration.actions.underway import refuse_under_way
from integration.counting import so_many
from integration.models import Delivery, Gap, Queue, QueuePartition
from integration.policy.rescue import end_of
from integration.policy.states import PartitionState
from integration.values import TopicFacts

SEEK: Final = "seek"
SKIP: Final = "skip"
SKIPPED: Final = "SKIPPED"


@dataclass(frozen=True, slots=True)
class Move:
    """One partition's position as a person saw it, `epoch` and `before`, and where it is to go."""

    partition: int
    epoch: int
    before: int
    after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Who moves positions and why; `send_again` what was delivered already, where it goes back."""

    actor: str
    reason: str
    send_again: bool = False


def seek(queue_id: int, moves: Sequence[Move], *, facts: TopicFacts, request: Request) -> list[str]:
    """Move positions of a queue that is paused or switched off; returns a sentence for each.

    Each gets a new epoch, so that an owner that still runs is fenced. What is skipped is recorded
    as a gap with who did it. `facts` is what the broker says now. Raises ReasonMissingError,
    NotPausedError, PositionMovedError, OffsetOutsideError, StillSendingError, QueueMismatchError,
    OutboundQueueError, QueueAtJmsError, RowBusyError.
    """
    if not request.reason.strip():
        raise ReasonMissingError(action="move a position")
    refuse_outbound(queue_id)
    refuse_jms(queue_id)
    with short_transaction():
        queue = lock(queue_id)
        if queue.enabled and not queue.paused:
            raise NotPausedError(queue=queue.name)
        rows = {row.partition: row for row in _locked(queue_id)}
        real = [move for move in moves if move.after != move.before]
        if not real:
            raise QueueMismatchError("No position would change.")
        return [_move(queue, rows.get(move.partition), move, facts, request) for move in real]


def _locked(queue_id: int) -> list[QueuePartition]:
    rows = QueuePartition.objects.select_for_update().filter(queue=queue_id)
    return list(rows.order_by("partition"))


def _move(
    queue: Queue, row: QueuePartition | None, move: Move, facts: TopicFacts, request: Request
) -> str:
    if row is None or (row.epoch, row.next_offset) != (move.epoch, move.before):
        raise PositionMovedError(partition=move.partition)
    _check(row, move, facts)
    if move.after > move.before:
        effect = _skip(queue, row, move, request)
    else:
        effect = _go_back(row, move, request)
    move_position(row, move.after, **_state_of(row))
    note(
        queue.pk,
        request.actor,
        SKIP if move.after > move.before else SEEK,
        reason=request.reason,
        effect=effect,
        partition=row.partition,
    )
    return effect


def _check(row: QueuePartition, move: Move, facts: TopicFacts) -> None:
    is_other = row.topic_uuid != facts.topic_uuid or row.partition not in facts.low
    if is_other or row.state_code in TOPIC_CODES:
        raise QueueMismatchError(
            f"The position of partition {row.partition} is not one of the topic as it is now."
        )
    low, high = facts.low[row.partition], facts.high[row.partition]
    is_rescued = end_of(row.rescues.ranges(row.topic_uuid), move.after) is not None
    if not (low <= move.after <= high or is_rescued):
        where = {"partition": row.partition, "offset": move.after}
        raise OffsetOutsideError(**where, low=low, high=high)
    refuse_under_way(row)


def _state_of(row: QueuePartition) -> Mapping[str, Any]:
    """What was stopped for its many failures stays so: that is resumed, not sought."""
    if row.state != PartitionState.BRAKED:
        return {}
    return {name: getattr(row, name) for name in RUNNING}


def _skip(queue: Queue, row: QueuePartition, move: Move, request: Request) -> str:
    """What was never tried is a gap; a failure that is passed waits for a person."""
    if queue.keeps_order:
        passed = failures.at_offsets(row, move.before, move.after)
        failures.hold_passed(passed, actor=request.actor, reason=request.reason)
    first = _untried_from(row, move.before)
    record_gap(row, row.topic_uuid, (first, move.after), by=request.actor, reason=SKIPPED)
    done = sum(offset < move.after for offset in row.done_ahead)
    count = so_many(move.after - move.before - done, "offset")
    more = f" {so_many(done, 'message was', 'messages were')} through already." if done else ""
    return f"{_went(move)} {count} skipped.{more}"


def _untried_from(row: QueuePartition, before: int) -> int:
    """The first offset from `before` on that is no failure, and that no gap tells of already."""
    has_failed = failures.at_offsets(row, before, before + 1).exists()
    first = before + 1 if has_failed else before
    known = Gap.objects.filter(
        partition=row, topic_uuid=row.topic_uuid, from_offset__lte=first, to_offset__gt=first
    )
    told: int | None = known.aggregate(end=Max("to_offset"))["end"]
    return first if told is None else told


def _go_back(row: QueuePartition, move: Move, request: Request) -> str:
    again = f"{so_many(move.before - move.after, 'offset')} read again."
    if request.send_again:
        # What was delivered under these offsets counts no more.
        Delivery.objects.filter(
            queue=row.queue_id,
            partition=row.partition,
            topic_uuid=row.topic_uuid,
            offset__gte=move.after,
        ).update(topic_uuid="")
        again += " What was delivered already is sent again."
    return f"{_went(move)} {again}"


def _went(move: Move) -> str:
    return f"The position went from {move.before:,} to {move.after:,}:"
