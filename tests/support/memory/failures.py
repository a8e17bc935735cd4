"""A failure's row in memory: written first, opened again, changed, and read; as store.rows does."""

from dataclasses import replace
from typing import Any

from integration.delivery.batch_result import NewError, RowChange
from integration.delivery.unit import OpenError
from integration.policy.dependency import object_hash
from integration.policy.failure import Failure
from integration.policy.states import ErrorState
from integration.values import Record
from tests.support.memory.rows import ErrorRow


def new_row(new: NewError, topic_uuid: str, arrival: int, now: float) -> ErrorRow:
    """A first failure."""
    unit, record = new.unit, new.unit.record
    return ErrorRow(
        id=new.id,
        topic_uuid=topic_uuid,
        record=record,
        message_id=unit.message_id,
        interface=unit.interface,
        state=new.state,
        code=new.failure.code,
        attempts=new.counters.attempts,
        retry_no=new.counters.retry_no,
        carrier=new.carrier,
        **_tried(new, arrival, now),
    )


def reopened(known: ErrorRow, new: NewError, arrival: int, now: float) -> ErrorRow:
    """A closed row met again after a rewind."""
    return replace(
        known,
        state=new.state,
        code=new.failure.code,
        attempts=known.attempts + min(new.counters.attempts, 1),
        late=False,
        apply_as_newest=False,
        newest_batch=None,
        newest_index=None,
        carrier="row",
        ended="",
        version=known.version + 1,
        **_tried(new, arrival, now),
    )


def _tried(new: NewError, arrival: int, now: float) -> dict[str, Any]:
    """What a failing try tells, whatever was known of its offset."""
    return {
        "spent": new.counters.spent,
        "crashes": new.counters.crashes,
        "arrival": (arrival, new.unit.record.offset),
        "first_failed_at": now,
        "budget_since": None,
        "not_before": _after(new.delay_seconds, now),
        "parked": new.state is ErrorState.PARKED,
        "waits_for": _waits_for(new.failure),
    }


def changed(known: ErrorRow, change: RowChange, now: float) -> ErrorRow:
    """A row after another try."""
    failure, counters = change.failure, change.counters
    # What is parked was not tried.
    row = known if change.state is ErrorState.PARKED else change.row
    return replace(
        known,
        state=change.state,
        version=known.version + 1,
        epoch=None,
        code=known.code if failure is None else failure.code,
        waits_for=known.waits_for if failure is None else _waits_for(failure),
        attempts=counters.attempts,
        retry_no=counters.retry_no,
        spent=counters.spent,
        budget_since=now if known.spent == 0 else known.budget_since,
        not_before=_after(change.delay_seconds, now),
        carrier=change.carrier,
        newest_batch=row.newest_batch,
        newest_index=row.newest_index,
        parked=known.parked or change.state is ErrorState.PARKED,
        ended=change.ended if change.state is ErrorState.RESOLVED else "",
    )


def _waits_for(failure: Failure) -> bytes | None:
    return None if failure.waits_for is None else object_hash(*failure.waits_for)


def _after(seconds: float | None, now: float) -> float | None:
    return None if seconds is None else now + seconds


def open_error(row: ErrorRow, now: float) -> OpenError:
    """The row as the engine reads it; its record carries the payload to be tried next."""
    record = row.record
    value = record.value if row.edited is None else row.edited
    return OpenError(
        id=row.id,
        version=row.version,
        state=row.state,
        partition=record.partition,
        offset=record.offset,
        topic_uuid=row.topic_uuid,
        attempts=row.attempts,
        retry_no=row.retry_no,
        spent=row.spent,
        crashes=row.crashes,
        carrier=row.carrier,
        code=row.code,
        due_in_seconds=0.0 if row.not_before is None else row.not_before - now,
        late=row.late,
        apply_as_newest=row.apply_as_newest,
        parked=row.parked,
        copied=row.copied_at is not None,
        arrival_batch=row.arrival[0],
        arrival_index=row.arrival[1],
        newest_batch=row.newest_batch,
        newest_index=row.newest_index,
        since_first_seconds=now
        - (row.first_failed_at if row.budget_since is None else row.budget_since),
        timestamp=None,
        message_id=row.message_id,
        interface=row.interface,
        order_key=row.order_key,
        waits_for=row.waits_for,
        record=Record(
            record.partition, record.offset, None, record.key, value, record.headers or []
        ),
    )
