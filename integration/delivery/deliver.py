"""The way from a batch to a settled one: cheap at first, then narrowing down to the culprit."""

from collections.abc import Sequence
from dataclasses import dataclass

from integration.delivery.attempt import Fenced, Settled, attempt
from integration.delivery.batch_outcome import BatchOutcome
from integration.delivery.context import RunContext
from integration.delivery.dealing import shares_of, taken_up
from integration.delivery.foreign import hold_foreign
from integration.delivery.handler_transaction import FailedAt
from integration.delivery.outcome import UNREAD
from integration.delivery.owned import Owned
from integration.delivery.parts import Part, Todo
from integration.delivery.report import Report
from integration.delivery.side_by_side import SideBySide, ThreadsEnded
from integration.delivery.steps import Step
from integration.delivery.stopping import was_cut
from integration.delivery.unit import Unit


@dataclass(frozen=True, slots=True)
class Delivered:
    """The batch is through, or stopped: `fenced` means that somebody else owns it now."""

    fenced: bool = False
    stopped: bool = False


def deliver(context: RunContext, owned: Owned, units: Sequence[Unit], report: Report) -> Delivered:
    """Settle every message of the batch, in as many commits as it takes. Raises LostError."""
    shares = shares_of(context, owned, units)
    owned.in_work = taken_up(context, owned, units, is_shared=len(shares) > 1)
    try:
        if len(shares) > 1 and context.threads is not None:
            ended = SideBySide(context, owned, report, context.threads).deliver(shares)
            return _ended(context, owned, ended)
        return _in_turn(context, owned, units, report)
    finally:
        owned.in_work = None


def _in_turn(context: RunContext, owned: Owned, units: Sequence[Unit], report: Report) -> Delivered:
    """One part after the other, on the run's own session."""
    todo = Todo(context, owned, units)
    while (part := todo.next()) is not None:
        if _runs_alone(owned, part) and not _marked(context, owned, part.units[0]):
            return Delivered(fenced=True)
        read_late(context, part.units)
        result = attempt(context, owned, part.units, part.mode)
        if _runs_alone(owned, part):
            context.repository.unmark(owned, part.units[0])
        match result:
            case Fenced():
                return Delivered(fenced=not was_cut(context, owned))
            case FailedAt():
                context.observer.step(Step.UNDONE)
                todo.narrow(part, result)
            case Settled(count, batch_outcome):
                report.add(batch_outcome)
                todo.settle(part, count)
                if must_stop(context, owned, [batch_outcome]):
                    return Delivered(stopped=True)
    return Delivered()


def _ended(context: RunContext, owned: Owned, ended: ThreadsEnded) -> Delivered:
    if ended.is_fenced:
        return Delivered(fenced=not was_cut(context, owned))
    return Delivered(stopped=must_stop(context, owned, ended.batch_outcomes))


def _runs_alone(owned: Owned, part: Part) -> bool:
    return owned.isolate_until is not None and len(part.units) == 1


def _marked(context: RunContext, owned: Owned, unit: Unit) -> bool:
    marked = context.repository.mark(owned, unit)
    context.observer.step(Step.MARKED)
    return marked


def read_late(context: RunContext, units: Sequence[Unit]) -> None:
    """Read what was kept unread until its marker stood: the parser, too, may hang on it."""
    for unit in units:
        if unit.known is UNREAD:
            context.manager.working()
            context.reader.fill(unit)
            if context.queue.is_error_queue and unit.row is None:
                hold_foreign(unit)


def must_stop(context: RunContext, owned: Owned, batch_outcomes: Sequence[BatchOutcome]) -> bool:
    """Return whether to leave the partition alone: a stop was settled, or a threshold reached."""
    if any(one.stop is not None for one in batch_outcomes):
        return True
    bad = [
        one
        for one in batch_outcomes
        if one.failed or one.batch_result.new_errors or one.batch_result.parked_rows
    ]
    if not bad:
        return False
    parked = sorted({key for one in bad for key in one.parked_keys})
    return context.stops_at_threshold(owned, bad[-1].last_cause, parked)
