"""The way from a batch to a settled one: cheap at first, then narrowing down to the culprit."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from integration.counting import so_many
from integration.delivery.attempt import Fenced, Settled, attempt
from integration.delivery.batch_outcome import BatchOutcome
from integration.delivery.context import RunContext
from integration.delivery.handler_transaction import FailedAt
from integration.delivery.outcome import UNREAD, Failed
from integration.delivery.owned import Owned
from integration.delivery.ports import LostError
from integration.delivery.report import Report
from integration.delivery.steps import Step
from integration.delivery.stopping import was_cut
from integration.delivery.unit import Unit
from integration.policy.batching import Mode
from integration.policy.failure import Failure, FailureClass

FREE_CONFLICTS: Final = 5
# The code that the partition manager notes on a row whose marker outlived a hanging call.
HUNG: Final = "HANDLER_TIMEOUT"


@dataclass(frozen=True, slots=True)
class Part:
    """Messages to try together, and how."""

    units: Sequence[Unit]
    mode: Mode
    conflicts: int = 0


@dataclass(frozen=True, slots=True)
class Delivered:
    """The batch is through, or stopped: `fenced` means that somebody else owns it now."""

    fenced: bool = False
    stopped: bool = False


def deliver(context: RunContext, owned: Owned, units: Sequence[Unit], report: Report) -> Delivered:
    """Settle every message of the batch, in as many commits as it takes. Raises LostError."""
    todo = deque(_plan(context, owned, units))
    settled = SettledKeys()
    while (part := settled.next_of(todo)) is not None:
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
                todo.extendleft(reversed(_narrow(context, part, result)))
            case Settled(count, batch_outcome):
                report.add(batch_outcome)
                settled.add(part)
                if _must_stop(context, owned, batch_outcome):
                    return Delivered(stopped=True)
                _put_back(todo, part, count)
    return Delivered()


class SettledKeys:
    """The keys whose failures a commit of this batch has settled.

    That commit has woken what is first of them now, so what was read of them before is out of
    date: it has its turn with the next rows.
    """

    def __init__(self) -> None:
        self._keys: set[bytes | None] = set()

    def add(self, part: Part) -> None:
        self._keys |= {unit.row.order_key for unit in part.units if unit.row is not None} - {None}

    def next_of(self, todo: deque[Part]) -> Part | None:
        """Take the next part, without what is out of date; None when nothing is left."""
        while todo:
            part = todo.popleft()
            units = [u for u in part.units if not self._follows(u)] if self._keys else part.units
            if units:
                return replace(part, units=units)
        return None

    def _follows(self, unit: Unit) -> bool:
        return unit.row is not None and not unit.moves and unit.row.order_key in self._keys


def _put_back(todo: deque[Part], part: Part, count: int) -> None:
    """Put back what a handler transaction did not reach: it is tried next."""
    if count < len(part.units):
        todo.appendleft(Part(part.units[count:], part.mode))


def _plan(context: RunContext, owned: Owned, units: Sequence[Unit]) -> list[Part]:
    """Cut before anything runs: crash suspects and isolated handlers run alone."""
    if owned.isolate_until is not None:
        for unit in units:
            hold_crasher(context, owned, unit)
        return [Part([unit], Mode.SAVEPOINTS) for unit in units]
    mode = Mode.OPTIMISTIC if context.queue.sequential else owned.rate.mode()
    parts: list[Part] = []
    together: list[Unit] = []
    for unit in units:
        if unit.taker is not None and unit.taker.isolated and unit.known is None:
            if together:
                parts.append(Part(together, mode))
                together = []
            parts.append(Part([unit], Mode.SAVEPOINTS))
        else:
            together.append(unit)
    if together:
        parts.append(Part(together, mode))
    return parts


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


def hold_crasher(context: RunContext, owned: Owned, unit: Unit) -> None:
    """A message on which the process died too often, alone under its marker, is held."""
    if unit.row is not None:
        crashes, hung = unit.row.crashes, unit.row.code == HUNG
    elif unit.record.offset == owned.suspect_offset:
        crashes, hung = owned.suspect_crashes, owned.suspect_hung
    else:
        return
    if crashes >= context.queue.crash_limit:
        text = f"The process died {so_many(crashes, 'time')} while only this message was in work."
        failure = Failure(FailureClass.CRASH, "PROCESS_CRASH", text)
        if hung:
            text = (
                f"The call took longer than it may, and its process was ended; that happened, or "
                f"the process died, {so_many(crashes, 'time')} while only this message was in work."
            )
            failure = Failure(FailureClass.CRASH, "HANDLER_TIMEOUT", text)
        unit.known = Failed(failure, crashes)


def _narrow(context: RunContext, part: Part, failed: FailedAt) -> list[Part]:
    """Return what to try instead of a batch that was rolled back.

    A conflict with another session is nobody's fault: the whole batch again, five times free.
    Continuous: the same messages with a savepoint each. Sequential: the part before the culprit
    as one batch, then the culprit alone; its optimistic failure and that try are one attempt.
    """
    units = part.units
    if failed.failure.kind is FailureClass.CONFLICT and part.conflicts < FREE_CONFLICTS:
        return [Part(units, part.mode, part.conflicts + 1)]
    if part.mode is Mode.SAVEPOINTS:
        return _halves(part, failed)
    if not context.queue.sequential or failed.place is None:
        return [Part(units, Mode.SAVEPOINTS)]
    place = failed.place
    cut = [
        Part(units[:place], Mode.OPTIMISTIC),
        Part(units[place : place + 1], Mode.SAVEPOINTS),
        Part(units[place + 1 :], Mode.OPTIMISTIC),
    ]
    return [piece for piece in cut if piece.units]


def _halves(part: Part, failed: FailedAt) -> list[Part]:
    """Every savepoint held, and yet the database refused the batch: look for the one it was.

    Alone, a message fails with the refusal. When even that cannot be written the run ends.
    """
    units, middle = part.units, len(part.units) // 2
    if middle:
        return [Part(units[:middle], part.mode), Part(units[middle:], part.mode)]
    if units[0].known is not None:
        raise LostError(failed.failure.text)
    units[0].known = Failed(failed.failure)
    return [Part(units, part.mode)]


def _must_stop(context: RunContext, owned: Owned, batch_outcome: BatchOutcome) -> bool:
    """Return whether to leave the partition alone: a stop was settled, or a threshold reached."""
    if batch_outcome.stop is not None:
        return True
    if not batch_outcome.failed and not batch_outcome.batch_result.new_errors:
        return False
    return context.stops_at_threshold(owned, batch_outcome.last_cause, batch_outcome.parked_keys)
