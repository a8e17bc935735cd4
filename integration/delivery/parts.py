"""A batch in parts: what is tried together, cut before anything runs, narrowed when it fails."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from integration.counting import so_many
from integration.delivery.context import RunContext
from integration.delivery.handler_transaction import FailedAt
from integration.delivery.outcome import Failed
from integration.delivery.owned import Owned
from integration.delivery.ports import LostError
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


class Todo:
    """The parts that are left of some messages, one after the other."""

    def __init__(self, context: RunContext, owned: Owned, units: Sequence[Unit]) -> None:
        self._context = context
        self._parts = deque(_plan(context, owned, units))
        self._settled = SettledKeys()

    def next(self) -> Part | None:
        """Take the next part; None when nothing is left."""
        return self._settled.next_of(self._parts)

    def narrow(self, part: Part, failed: FailedAt) -> None:
        """Put back what was rolled back, to be tried otherwise. Raises LostError."""
        self._parts.extendleft(reversed(_narrow(self._context, part, failed)))

    def settle(self, part: Part, count: int) -> None:
        """Note what a commit has settled; what it did not reach is tried next."""
        self._settled.add(part)
        if count < len(part.units):
            self._parts.appendleft(Part(part.units[count:], part.mode))


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
        if _runs_alone(unit):
            if together:
                parts.append(Part(together, mode))
                together = []
            parts.append(Part([unit], mode))
        else:
            together.append(unit)
    if together:
        parts.append(Part(together, mode))
    return parts


def _runs_alone(unit: Unit) -> bool:
    return unit.taker is not None and unit.taker.isolated and unit.known is None


def hold_crasher(context: RunContext, owned: Owned, unit: Unit) -> None:
    """A message on which the process died too often, alone under its marker, is held."""
    if unit.row is not None:
        crashes, hung = unit.row.crashes, unit.row.code == HUNG
    elif context.repository.is_suspect(owned, unit):
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
    if failed.failure.kind is FailureClass.OUTAGE and failed.place is None:
        return _waiting(part, failed)
    if part.mode is Mode.SAVEPOINTS:
        return _halves(part, failed)
    if _runs_alone(units[0]) and failed.place is not None:
        # It had the transaction for itself: another try would tell nothing new.
        units[0].known = Failed(failed.failure)
        return [Part(units, Mode.SAVEPOINTS)]
    if not context.queue.sequential or failed.place is None:
        return [Part(units, Mode.SAVEPOINTS)]
    place = failed.place
    cut = [
        Part(units[:place], Mode.OPTIMISTIC),
        Part(units[place : place + 1], Mode.SAVEPOINTS),
        Part(units[place + 1 :], Mode.OPTIMISTIC),
    ]
    return [piece for piece in cut if piece.units]


def _waiting(part: Part, failed: FailedAt) -> list[Part]:
    """The commit met an outage, which no smaller part would escape: the first message waits."""
    first = next((unit for unit in part.units if unit.known is None), None)
    if first is None:
        raise LostError(failed.failure.text)
    first.known = Failed(failed.failure)
    return [Part(part.units, Mode.SAVEPOINTS)]


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
