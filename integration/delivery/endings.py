"""Consequences of an outcome: nothing, a retry, a hold, or a stop. Pure; no Django, no Kafka."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from integration.delivery.batch_result import Counters, NewError, RowChange, StateChange
from integration.delivery.outcome import Failed, Good, Waits
from integration.delivery.owned import HEAD_HELD
from integration.delivery.reading import COPY_HEADER, copy_headers, retry_marker_headers
from integration.delivery.snapshot import QueueSnapshot
from integration.delivery.unit import Unit
from integration.policy import retry
from integration.policy.failure import Failure, FailureClass
from integration.policy.states import Ended, ErrorState, OutboxKind, PartitionState
from integration.values import Outgoing

# What spends a retry, and is held once they are spent.
SPENDING: Final = frozenset(
    {FailureClass.TRANSIENT, FailureClass.DEPENDENCY, FailureClass.CONFLICT}
)
PARKED: Final = Failure(
    FailureClass.DEPENDENCY,
    "PARKED",
    "An earlier message of its key is still open; this one is tried after it.",
)


@dataclass(slots=True)
class Ending:
    """The consequences of one outcome. With `stop` the partition's position stays before it."""

    ended: Ended | None
    stop: StateChange | None = None
    new_error: NewError | None = None
    change: RowChange | None = None
    outgoing: list[Outgoing] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Chance:
    """Input of randomness and memory: jitter's roll, a fresh id, probes made so far."""

    roll: float
    new_id: UUID
    probes: int = 0
    deployment: str = ""


def end_good(unit: Unit, outcome: Good) -> Ending:
    """A message that is through closes its error row, if it has one."""
    ending = Ending(outcome.ended)
    if unit.row is not None:
        ending.change = RowChange(
            row=unit.row,
            state=ErrorState.RESOLVED,
            ended=outcome.ended,
            counters=_counters(unit, tried=1),
            carrier=unit.row.carrier,
        )
    return ending


def end_waiting(outcome: Waits) -> Ending:
    """A copy whose failure is open: it has not ended, and nothing behind it is read."""
    stop = StateChange(
        state=PartitionState.BLOCKED,
        code=HEAD_HELD,
        text="It is the copy of a failure that is still open.",
        error=outcome.error,
    )
    return Ending(None, stop=stop)


def end_parked(unit: Unit, chance: Chance) -> Ending:
    """A message behind an open one of its key waits as a row, and the position goes past it.

    One that has a row and moves no position stays as it is. That is no try, and spends nothing.
    """
    if unit.row is not None:
        if not unit.moves:
            return Ending(None)
        counters = _counters(unit, tried=0)
        state, ended = ErrorState.PARKED, Ended.PARKED
        return Ending(
            ended, change=RowChange(row=unit.row, state=state, ended=ended, counters=counters)
        )
    new = NewError(
        id=chance.new_id,
        unit=unit,
        failure=PARKED,
        state=ErrorState.PARKED,
        counters=Counters(attempts=0, retry_no=0, spent=0),
        carrier="row",
        delay_seconds=None,
    )
    return Ending(Ended.PARKED, new_error=new)


def end_failed(unit: Unit, outcome: Failed, queue: QueueSnapshot, chance: Chance) -> Ending:
    """Return what a failed try leads to, by the table "what failed, and what it costs"."""
    failure = outcome.failure
    match failure.kind:
        case FailureClass.OUTAGE:
            return Ending(None, stop=_outage(failure, chance))
        case FailureClass.DISABLED:
            if waits_for_people(failure, queue):
                return Ending(None, stop=_waiting(failure))
            return _hold(unit, failure, queue, chance, tried=0)
        case FailureClass.CRASH:
            # Each death was an attempt; the last owner counted those of a known row.
            crashes = outcome.crashes if unit.row is None else 0
            return _hold(unit, failure, queue, chance, tried=crashes)
        case FailureClass.PERMANENT:
            return _hold(unit, failure, queue, chance)
        case FailureClass.TRANSIENT | FailureClass.DEPENDENCY | FailureClass.CONFLICT:
            return _retry_or_hold(unit, outcome, queue, chance)


def waits_for_people(failure: Failure, queue: QueueSnapshot) -> bool:
    """Return whether the partition stands until a service is there again, or switched on."""
    is_off = failure.kind is FailureClass.DISABLED
    return is_off and (queue.sequential or failure.code == "HANDLER_MISSING")


def _outage(failure: Failure, chance: Chance) -> StateChange:
    pause = retry.probe_pause(chance.probes, chance.roll)
    return StateChange(
        state=PartitionState.OUTAGE,
        code=failure.code,
        text=failure.text,
        resume_seconds=pause.total_seconds(),
        probes=chance.probes + 1,
    )


def _waiting(failure: Failure) -> StateChange:
    return StateChange(state=PartitionState.WAITING, code=failure.code, text=failure.text)


def _counters(unit: Unit, *, tried: int, retries: int = 0) -> Counters:
    row = unit.row
    if row is None:
        return Counters(attempts=tried, retry_no=retries, spent=retries)
    return Counters(
        attempts=row.attempts + tried,
        retry_no=row.retry_no + retries,
        spent=row.spent + retries,
        crashes=row.crashes,
    )


def _retry_or_hold(unit: Unit, outcome: Failed, queue: QueueSnapshot, chance: Chance) -> Ending:
    failure = outcome.failure
    verdict, source = retry_verdict(unit, queue, chance.roll)
    match outcome.verdict or verdict:
        case retry.RetryAfter(delay):
            return _by(_retry(unit, failure, queue, chance, delay.total_seconds()), source)
        case retry.GiveUp():
            return _by(_hold(unit, failure, queue, chance), source)


def retry_verdict(
    unit: Unit, queue: QueueSnapshot, roll: float
) -> tuple[retry.RetryAfter | retry.GiveUp, retry.RetrySource]:
    """Decide whether a failed message is tried again, and say by whose rule."""
    row = unit.row
    policy, source = queue.retry_for(unit.interface)
    # One that was released or parked begins anew, with this failure: those before spend nothing.
    begun = None if row is None or row.spent == 0 else row
    verdict = retry.decide(
        policy,
        spent=0 if row is None else row.spent,
        since_first=timedelta(seconds=0 if begun is None else begun.since_first_seconds),
        roll=roll,
    )
    return verdict, source


def _by(ending: Ending, source: retry.RetrySource) -> Ending:
    """Note whose rule it was."""
    if ending.new_error is not None:
        ending.new_error = replace(ending.new_error, retry_by=source)
    if ending.change is not None:
        ending.change = replace(ending.change, retry_by=source)
    return ending


def _retry(
    unit: Unit, failure: Failure, queue: QueueSnapshot, chance: Chance, delay: float
) -> Ending:
    counters = _counters(unit, tried=1, retries=1)
    carrier = _carrier(unit, queue)
    ending = _record(
        unit,
        chance,
        Ended.RETRY,
        failure=failure,
        state=ErrorState.RETRY,
        counters=counters,
        carrier=carrier,
        delay_seconds=delay,
    )
    error_id = chance.new_id if unit.row is None else unit.row.id
    if queue.sequential and unit.moves:
        ending.stop = StateChange(
            state=PartitionState.BACKOFF,
            code="RETRY_WAIT",
            text=f"Try {counters.attempts} failed: {failure.text}",
            error=error_id,
            resume_seconds=delay,
        )
    if carrier == "topic":
        ending.outgoing.append(_retry_marker(unit, error_id, counters.retry_no, queue, delay))
    return ending


def _carrier(unit: Unit, queue: QueueSnapshot) -> str:
    """Released rows and sequential queues never publish a retry marker."""
    if queue.sequential or queue.is_error_queue:
        return "row"
    if unit.row is not None and unit.row.carrier == "row":
        return "row"
    return queue.carrier


def _retry_marker(
    unit: Unit, error_id: UUID, retry_no: int, queue: QueueSnapshot, delay: float
) -> Outgoing:
    return Outgoing(
        topic=queue.topic,
        value=b"",
        key=unit.record.key,
        headers=retry_marker_headers(error_id, retry_no, queue.name),
        partition=unit.record.partition,
        provider_id=queue.provider_id,
        kind=OutboxKind.RETRY_MARKER,
        error=error_id,
        retry_no=retry_no,
        delay_seconds=delay,
    )


def _hold(
    unit: Unit, failure: Failure, queue: QueueSnapshot, chance: Chance, *, tried: int = 1
) -> Ending:
    counters = _counters(unit, tried=tried)
    if failure.kind is FailureClass.CRASH and unit.row is None:
        counters = replace(counters, crashes=tried)
    ending = _record(
        unit,
        chance,
        Ended.HOLD,
        failure=failure,
        state=ErrorState.HOLD,
        counters=counters,
        carrier="row",
        delay_seconds=None,
    )
    error_id = chance.new_id if unit.row is None else unit.row.id
    if queue.sequential and unit.moves:
        ending.stop = StateChange(
            state=PartitionState.BLOCKED, code=HEAD_HELD, text=failure.text, error=error_id
        )
    elif queue.error_topic and (unit.row is None or not unit.row.copied):
        ending.outgoing.append(_copy(unit, error_id, queue, chance))
    return ending


def _copy(unit: Unit, error_id: UUID, queue: QueueSnapshot, chance: Chance) -> Outgoing:
    """The copy for the error queue: the record as it came, and whose failure it is."""
    return Outgoing(
        topic=queue.error_topic or "",
        value=unit.record.value,
        key=unit.record.key,
        headers=copy_headers(unit.record, error_id, chance.deployment),
        provider_id=queue.error_provider_id,
        kind=OutboxKind.COPY,
        message_id=unit.message_id,
        error=error_id,
    )


def of_known_rows(outgoing: Iterable[Outgoing], rows: Mapping[UUID, UUID | None]) -> list[Outgoing]:
    """Return what goes out where new failures have turned out to have a row already.

    `rows` has it by the id a failure was given: the row that was opened again, whose copy goes out
    under its name, or None where it has been open all along. A retry marker would lead nowhere.
    """
    kept: list[Outgoing] = []
    for row in outgoing:
        known = rows.get(row.error, row.error) if row.error else None
        if known == row.error:
            kept.append(row)
        elif known is not None and row.kind == OutboxKind.COPY:
            name = str(known).encode()
            headers = [(n, name if n == COPY_HEADER else value) for n, value in row.headers]
            kept.append(replace(row, error=known, headers=headers))
    return kept


def _record(unit: Unit, chance: Chance, ended: Ended, **row: Any) -> Ending:
    """The row's consequence: a new row for a first failure, a change for a known one.

    `row` is what both have: failure, state, counters, carrier and delay_seconds.
    """
    if unit.row is None:
        return Ending(ended, new_error=NewError(id=chance.new_id, unit=unit, **row))
    return Ending(ended, change=RowChange(row=unit.row, ended=ended, **row))
