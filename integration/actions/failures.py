"""Requests about one failure: each is one compare-and-set with its line of history."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from django.db.models import F, QuerySet

from integration.actions import tracked
from integration.actions.errors import (
    LateReleaseError,
    NotHeadError,
    PayloadTooLargeError,
    ReasonMissingError,
    StateMismatchError,
)
from integration.actions.reasons import cut
from integration.actions.transaction import short_transaction
from integration.envelope import DEFAULT
from integration.models import Delivery, ErrorChange, MessageError, OutboxRow, Queue, QueuePartition
from integration.policy.moves import (
    ARRIVED,
    DELETE,
    EDIT,
    HOLD,
    PARK,
    PASS,
    RELEASE,
    RESTORE,
    SEND_BACK,
    Move,
)
from integration.policy.states import (
    CLOSED,
    DeliveryState,
    Ended,
    ErrorState,
    OutboxKind,
    OutboxState,
    PartitionState,
    in_order,
)
from integration.selectors.failures.lateness import why_late
from integration.store import key_order
from integration.store.sessions import database_now, execute
from integration.store.starts import leave_request

Values = Mapping[str, object]
# Columns a verb writes besides the state; a release has choices. Cleanup counts from `closed_at`.
COLUMNS: Final[Mapping[Move, Values]] = {
    HOLD: {"not_before": None},
    DELETE: {"closed_at": database_now(), "ended": Ended.DELETED, "not_before": None},
    RESTORE: {"closed_at": None, "ended": "", "parked_at": None},
    ARRIVED: {"closed_at": database_now(), "ended": Ended.DELIVERED, "not_before": None},
    SEND_BACK: {"closed_at": database_now(), "ended": Ended.RETURNED, "not_before": None},
}


@dataclass(frozen=True, slots=True)
class Request:
    """One verb asked for by one person, with the reason they gave."""

    move: Move
    actor: str
    reason: str


def release(
    error_id: UUID,
    *,
    version: int,
    actor: str,
    reason: str = "",
    late: bool = False,
    apply_as_newest: bool = False,
) -> None:
    """Give a held message back to the engine, with a fresh budget of retries.

    `late` confirms that it is applied after newer messages; without it such a release raises
    LateReleaseError. `apply_as_newest` draws a new arrival number and needs a reason. Raises
    StateMismatchError, RowBusyError, ReasonMissingError.
    """
    if apply_as_newest and not reason.strip():
        raise ReasonMissingError(action="apply a message as the newest of its key")
    request = Request(RELEASE, actor, reason)
    with short_transaction():
        row = as_seen(error_id, version, request)
        why = lateness_of(row)
        if why is not None and not late:
            raise LateReleaseError(why=why)
        more = released(late=why is not None, apply_as_newest=apply_as_newest)
        carry_out(row, request, more)
    leave_request(row.queue_id)


def hold(error_id: UUID, *, version: int, actor: str, reason: str = "") -> None:
    """Stop the engine's retries of one message. Raises StateMismatchError, RowBusyError."""
    _change(error_id, version, Request(HOLD, actor, reason))


def delete(error_id: UUID, *, version: int, actor: str, reason: str) -> None:
    """Decide that a message is not to be applied; it can be restored until cleanup.

    Of the head of a blocked queue only the row changes: the engine sees it and goes on. Raises
    ReasonMissingError, StateMismatchError, RowBusyError.
    """
    if not reason.strip():
        raise ReasonMissingError(action="delete a message")
    leave_request(_change(error_id, version, Request(DELETE, actor, reason)).queue_id)


def restore(error_id: UUID, *, version: int, actor: str, reason: str = "") -> None:
    """Bring a deleted message back on hold. Raises StateMismatchError, RowBusyError."""
    _change(error_id, version, Request(RESTORE, actor, reason))


def park(error_id: UUID, *, version: int, actor: str, reason: str) -> None:
    """Let a sequential queue go on past its held head; later messages of its key follow the head.

    They are parked behind it until it is released or deleted; one without a key holds nobody back.
    Raises ReasonMissingError, NotHeadError, StateMismatchError, RowBusyError.
    """
    if not reason.strip():
        raise ReasonMissingError(action="park a message")
    request = Request(PARK, actor, reason)
    with short_transaction():
        row = as_seen(error_id, version, request)
        place = QueuePartition.objects.filter(state=PartitionState.BLOCKED, state_error=row.pk)
        is_read = row.queue.direction == Queue.Direction.INBOUND and not row.queue.is_error_queue
        if not row.queue.is_sequential or not is_read or not place.exists():
            raise NotHeadError
        carry_out(row, request, {"parked_at": database_now()})
    leave_request(row.queue_id)


def arrived(error_id: UUID, *, version: int, actor: str, reason: str) -> None:
    """Say that a held outbound message is on the other side: it is not sent again.

    Its calls that nobody knew the end of count as delivered; the head of a sequential queue is
    passed by the next run. Tracking gets the ending that the engine would have written. Raises
    ReasonMissingError, StateMismatchError, RowBusyError.
    """
    if not reason.strip():
        raise ReasonMissingError(action="say that a message arrived")
    request = Request(ARRIVED, actor, reason)
    with short_transaction():
        row = as_seen(error_id, version, request)
        if row.queue.direction != Queue.Direction.OUTBOUND:
            raise _mismatch(row, request)
        carry_out(row, request, COLUMNS[ARRIVED])
        Delivery.objects.filter(
            queue=row.queue_id,
            topic_uuid=row.topic_uuid,
            partition=row.partition,
            offset=row.offset,
            state=DeliveryState.UNKNOWN,
        ).update(state=DeliveryState.DELIVERED, text=f"{actor}: {cut(reason)}")
        tracked.ended(row, Ended.DELIVERED)
    leave_request(row.queue_id)


def edit(error_id: UUID, *, version: int, actor: str, payload: bytes, reason: str = "") -> int:
    """Replace what the next attempt of a held message reads; the original stays as it came.

    `payload` is the whole record, envelope included; see integration.wrapping for the document in
    it. Returns the row's version afterwards, the same one when nothing differs. Raises
    PayloadTooLargeError, StateMismatchError, RowBusyError.
    """
    if len(payload) > DEFAULT.max_bytes:
        raise PayloadTooLargeError(size=len(payload), limit=DEFAULT.max_bytes)
    request = Request(EDIT, actor, reason)
    with short_transaction():
        row = as_seen(error_id, version, request)
        before = row.current_payload
        if payload == before:
            return version
        edited = {"edited_payload": payload, "edited_by": actor, "edited_at": database_now()}
        carry_out(row, request, edited, payload_before=before)
    return version + 1


def released(*, late: bool, apply_as_newest: bool = False) -> Values:
    """Columns of a release besides its state: due now by the database's clock, from its row."""
    return {
        "spent": 0,
        "crashes": 0,
        "not_before": database_now(),
        "carrier": "row",
        "late": late,
        "apply_as_newest": apply_as_newest,
        "newest_batch": None,
        "newest_index": None,
    }


def lateness_of(row: MessageError) -> str | None:
    """Return why releasing this row needs a confirmation, or None."""
    place = QueuePartition.objects.filter(queue=row.queue_id, partition=row.partition).first()
    return why_late(row, row.queue, place)


def cancel_retry_markers(error_ids: list[UUID]) -> None:
    """A retry marker not yet sent would only be counted as stale; the row itself is due."""
    OutboxRow.objects.filter(
        error__in=error_ids, kind=OutboxKind.RETRY_MARKER, state=OutboxState.PENDING
    ).update(state=OutboxState.CANCELLED)


def at_offsets(
    place: QueuePartition, first: int, after: int | None = None
) -> QuerySet[MessageError]:
    """The failures of a partition's topic from `first` on, those from `after` on not among them."""
    failures = MessageError.objects.filter(
        queue=place.queue_id,
        topic_uuid=place.topic_uuid,
        partition=place.partition,
        offset__gte=first,
    )
    return failures if after is None else failures.filter(offset__lt=after)


def hold_passed(passed: QuerySet[MessageError], *, actor: str, reason: str = "") -> None:
    """Put on hold what the engine would try by itself, for failures that a position moves past.

    Tried then, they would be applied after newer ones. In a transaction; raises RowBusyError.
    """
    request = Request(PASS, actor, reason)
    due = passed.filter(state__in=in_order(PASS.expected)).order_by("pk")
    for row in due.select_for_update().only("version", "state"):
        carry_out(row, request, {"not_before": None, "epoch": None})


def _change(error_id: UUID, version: int, request: Request) -> MessageError:
    """Carry out a verb that nothing else depends on; returns the row as it was before."""
    with short_transaction():
        row = as_seen(error_id, version, request)
        carry_out(row, request, COLUMNS[request.move])
    return row


def as_seen(error_id: UUID, version: int, request: Request) -> MessageError:
    """Return the row if it still is what the person looked at. Raises StateMismatchError."""
    row = MessageError.objects.select_related("queue").filter(pk=error_id).first()
    if row is None or row.version != version or row.state not in request.move.expected:
        raise _mismatch(row, request)
    return row


def carry_out(
    row: MessageError, request: Request, more: Values, *, payload_before: bytes | None = None
) -> None:
    """Change the row if nobody was faster, and write the history line in the same transaction."""
    move = request.move
    same = MessageError.objects.filter(pk=row.pk, version=row.version, state__in=move.expected)
    values: dict[str, object] = {"state": move.target, "version": F("version") + 1, **more}
    if same.update(**values) == 0:
        raise _mismatch(MessageError.objects.filter(pk=row.pk).first(), request)
    if move is not EDIT:
        cancel_retry_markers([row.pk])
    if move.target in CLOSED:
        key_order.wake(execute, [row.pk])
    ErrorChange.objects.create(
        error=row,
        at=database_now(),
        actor=request.actor,
        action=move.action,
        from_state=row.state,
        to_state=move.target,
        reason=cut(request.reason),
        payload_before=payload_before,
    )


def _mismatch(row: MessageError | None, request: Request) -> StateMismatchError:
    if row is None:
        return StateMismatchError(state=None, mover="cleanup", moved_at=None)
    move, state = request.move, ErrorState(row.state)
    last = row.changes.order_by("-at", "-id").first()
    if last is None or last.to_state != state:
        moved_at = row.closed_at or row.last_failed_at
        return StateMismatchError(state=state, mover="the engine", moved_at=moved_at)
    again = last.actor == request.actor and last.action == move.action and state == move.target
    return StateMismatchError(
        state=state,
        mover=last.actor,
        moved_at=last.at,
        already_done=again and move is not EDIT,
    )
