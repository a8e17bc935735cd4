"""Builders of what goes through the engine: records, units, failures, settlements."""

import uuid
from typing import Any
from uuid import UUID

from integration.delivery.batch_result import (
    BatchResult,
    Counters,
    NewError,
    RowChange,
    StateChange,
)
from integration.delivery.outcome import Outcome
from integration.delivery.owned import Owned
from integration.delivery.ports import Repository
from integration.delivery.tracked import Track, Tracked
from integration.delivery.unit import OpenError, Unit
from integration.handlers.registry import Registration
from integration.message import Message, Origin
from integration.policy.failure import Failure, FailureClass
from integration.policy.states import Ended, ErrorState, PartitionState
from integration.values import Outgoing, Record

BOOM = Failure(FailureClass.TRANSIENT, "BOOM", "It failed.")


def a_record(offset: int = 10, value: bytes | None = b"{}", **fields: Any) -> Record:
    return Record(
        fields.get("partition", 0),
        offset,
        fields.get("timestamp_ms"),
        fields.get("key"),
        value,
        fields.get("headers", []),
    )


def a_failure(kind: FailureClass = FailureClass.TRANSIENT, code: str = "BOOM") -> Failure:
    return Failure(kind, code, "It failed.")


def a_taker(call: Any = None, *, batch: bool = False, isolated: bool = False) -> Registration:
    return Registration("X", call or (lambda _: None), batch, isolated, False, "tests")


def a_message(record: Record, message_id: str = "") -> Message:
    origin = Origin("X", None, "queue", "topic")
    return Message(record, origin, message_id or f"id-{record.offset}", record.value, None)


def a_unit(
    offset: int = 10,
    *,
    known: Outcome | None = None,
    taker: Registration | None = None,
    record: Record | None = None,
    row: OpenError | None = None,
) -> Unit:
    record = record or a_record(offset)
    message = a_message(record)
    unit = Unit(record, message, taker or a_taker(), known, message.message_id, "X")
    if row is not None:
        unit.row, unit.moves = row, False
    return unit


def an_owned(**fields: Any) -> Owned:
    known: dict[str, Any] = {
        "id": 1000,
        "partition": 0,
        "epoch": 1,
        "next_offset": 10,
        "topic_uuid": "topic-1",
        "state": PartitionState.RUNNING,
    }
    return Owned(**(known | fields))


def a_row(**fields: Any) -> OpenError:
    """An open error row as the engine reads it."""
    known: dict[str, Any] = {
        "id": uuid.uuid4(),
        "version": 1,
        "state": "RETRY",
        "partition": 0,
        "offset": 5,
        "topic_uuid": "topic-1",
        "attempts": 1,
        "retry_no": 1,
        "spent": 1,
        "crashes": 0,
        "carrier": "row",
        "code": "BOOM",
        "due_in_seconds": 0.0,
        "late": False,
        "apply_as_newest": False,
        "parked": False,
        "copied": False,
        "arrival_batch": 1,
        "arrival_index": 5,
        "newest_batch": None,
        "newest_index": None,
        "since_first_seconds": 0.0,
        "timestamp": None,
        "message_id": "id-5",
        "interface": "X",
        "order_key": None,
        "waits_for": None,
    }
    known |= fields
    known.setdefault("record", a_record(known["offset"], partition=known["partition"]))
    return OpenError(**known)


def a_new_error(offset: int = 10, state: ErrorState = ErrorState.RETRY, **fields: Any) -> NewError:
    retry = state is ErrorState.RETRY
    known: dict[str, Any] = {
        "id": uuid.uuid4(),
        "unit": a_unit(offset),
        "failure": BOOM,
        "state": state,
        "counters": Counters(attempts=1, retry_no=int(retry), spent=int(retry)),
        "carrier": "row",
        "delay_seconds": 30.0 if retry else None,
    }
    return NewError(**(known | fields))


def a_change(row: OpenError, state: ErrorState = ErrorState.RESOLVED, **fields: Any) -> RowChange:
    known: dict[str, Any] = {
        "row": row,
        "state": state,
        "ended": Ended.APPLIED if state is ErrorState.RESOLVED else Ended(state.value),
        "counters": Counters(
            attempts=row.attempts + 1, retry_no=row.retry_no, spent=row.spent, crashes=row.crashes
        ),
        "failure": None if state is ErrorState.RESOLVED else BOOM,
        "delay_seconds": 30.0 if state is ErrorState.RETRY else None,
    }
    return RowChange(**(known | fields))


def a_batch_result(next_offset: int, *offsets: int, **fields: Any) -> BatchResult:
    """The position moves to `next_offset`; each of `offsets` was applied."""
    batch_result = BatchResult(next_offset, **fields)
    batch_result.tracks += [a_track(offset) for offset in offsets]
    return batch_result


def a_track(
    offset: int,
    ended: str = "APPLIED",
    *,
    message_id: str | None = None,
    key: bytes | None = None,
    tracked: Tracked | None = None,
) -> Track:
    id_ = f"id-{offset}" if message_id is None else message_id
    return (offset, id_, "X", ended, key, 1_700_000_000_000, tracked)


def a_retry_marker(error: UUID, retry_no: int = 1, *, provider_id: int = 1) -> Outgoing:
    return Outgoing(
        topic="t",
        value=b"",
        provider_id=provider_id,
        kind="TICKET",
        error=error,
        retry_no=retry_no,
        delay_seconds=30.0,
    )


def blocked(error: UUID | None = None) -> StateChange:
    return StateChange(state=PartitionState.BLOCKED, code="HEAD_HELD", text="x", error=error)


def settle(repository: Repository, owned: Owned, batch_result: BatchResult) -> None:
    """Commit a batch result, and stand where it leads."""
    with repository.work(owned) as work:
        assert work.settle(batch_result)
    owned.next_offset = batch_result.next_offset
