"""The way from outcomes to one batch result: what the commit of this batch will contain."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from integration.delivery.batch_result import RUNNING, BatchResult, StateChange
from integration.delivery.context import RunContext
from integration.delivery.endings import Ending, end_failed, end_good, end_parked, end_waiting
from integration.delivery.outcome import APPLIED, HAS_ROW, Failed, Outcome, Parked, Waits
from integration.delivery.owned import Owned
from integration.delivery.reading import copied_failure
from integration.delivery.tracked import Track
from integration.delivery.unit import Unit
from integration.policy.failure import cause_of
from integration.policy.states import Ended, ErrorState, PartitionState

# What a released row meets says nothing about why the partition is not read.
KEPT: Final = frozenset({PartitionState.BRAKED, PartitionState.BLOCKED})


@dataclass(slots=True)
class BatchOutcome:
    """The meaning of a batch result once it is committed."""

    batch_result: BatchResult
    stop: StateChange | None = None
    stopped_at: Unit | None = None
    failed: int = 0
    last_cause: str = ""

    @property
    def parked_keys(self) -> list[bytes]:
        """The order keys of what this commit has parked."""
        news = self.batch_result.new_errors
        keys = [new.unit.order_key for new in news if new.state is ErrorState.PARKED]
        keys += [row.order_key for row in self.batch_result.parked_rows]
        return sorted({key for key in keys if key is not None})


def batch_outcome(
    context: RunContext, owned: Owned, units: Sequence[Unit], outcomes: Sequence[Outcome]
) -> BatchOutcome:
    """Turn outcomes into consequences, in order, up to the first stop."""
    result = BatchOutcome(BatchResult(next_offset=owned.next_offset))
    batch_result, tracks = result.batch_result, result.batch_result.tracks
    for unit, outcome in zip(units, outcomes, strict=False):
        if outcome is APPLIED and unit.row is None:
            record = unit.record
            place, id_, interface = record.offset, unit.message_id, unit.interface
            key, at_ms = record.key, record.timestamp_ms
            tracks.append((place, id_, interface, "APPLIED", key, at_ms, unit.tracked))
            batch_result.next_offset = unit.at + 1
            continue
        if outcome is HAS_ROW and not context.queue.dedupe and owned.reads_again(unit.at):
            batch_result.met_again.append(unit.at)
        ending = ending_of(context, owned, unit, outcome)
        add(result, unit, ending, partition=owned.partition)
        if isinstance(outcome, Failed):
            result.failed += 1
            result.last_cause = cause_of(outcome.failure)
        if ending.stop is not None:
            result.stop, result.stopped_at = ending.stop, unit
            if stops(owned, unit):
                batch_result.state = ending.stop
            break
    _log_range(batch_result, units, outcomes)
    if result.stop is None and owned.state is not PartitionState.RUNNING and _clears(owned, units):
        batch_result.state = RUNNING
    return result


def stops(owned: Owned, unit: Unit) -> bool:
    """Return whether what stopped at this message is why the partition is not read from now on.

    A stop at the failure threshold stays, whatever its head meets: a person takes it away.
    """
    if owned.state is PartitionState.BRAKED:
        return False
    return unit.moves or owned.state not in KEPT


def ending_of(context: RunContext, owned: Owned, unit: Unit, outcome: Outcome) -> Ending:
    """Return what follows from the outcome of one message."""
    if isinstance(outcome, Failed):
        return end_failed(unit, outcome, context.queue, context.chance(owned))
    if isinstance(outcome, Waits):
        return end_waiting(outcome)
    if isinstance(outcome, Parked):
        return end_parked(unit, context.chance(owned))
    return end_good(unit, outcome)


def add(result: BatchOutcome, unit: Unit, ending: Ending, *, partition: int) -> None:
    """Put one message's consequences to those of the commit."""
    batch_result = result.batch_result
    if ending.new_error is not None:
        batch_result.new_errors.append(ending.new_error)
    if ending.change is not None:
        batch_result.changes.append(ending.change)
    batch_result.outgoing += ending.outgoing
    if ending.ended is not None:
        track = track_of(unit, ending.ended.value)
        if unit.record.partition == partition:
            batch_result.tracks.append(track)
        else:
            batch_result.strays.append((unit.record.partition, track))
    if isinstance(unit.known, Waits):
        batch_result.copies.append((unit.known.error, unit.record.offset))
    elif ending.ended is Ended.PASSED and (failure := copied_failure(unit.record)) is not None:
        batch_result.copies.append((failure, unit.record.offset))
    if unit.moves:
        stays = ending.stop is not None
        batch_result.next_offset = unit.at + (0 if stays else 1)


def track_of(unit: Unit, ended: str) -> Track:
    record = unit.record
    known = (record.offset, unit.message_id, unit.interface, ended)
    return (*known, record.key, record.timestamp_ms, unit.tracked)


def _log_range(
    batch_result: BatchResult, units: Sequence[Unit], outcomes: Sequence[Outcome]
) -> None:
    """Offsets that drew their number with this batch; rows keep the number they have."""
    ended = units[: len(outcomes)]
    first = next((unit for unit in ended if unit.row is None), None)
    if first is not None:
        last = next(unit for unit in reversed(ended) if unit.row is None)
        batch_result.logged = (first.record.offset, last.record.offset)


def _clears(owned: Owned, units: Sequence[Unit]) -> bool:
    """Return whether nothing stands in the way any more once these messages are through.

    A released row that runs while the queue is stopped at its failure threshold or waits behind a
    gap clears nothing.
    """
    moved = any(unit.moves for unit in units)
    return moved and owned.state is not PartitionState.BRAKED
