"""Running the handlers of a batch inside one transaction, optimistically or with savepoints."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from django.db import DatabaseError

from integration.delivery.calling import SWALLOWED, call_batch, call_one
from integration.delivery.endings import waits_for_people
from integration.delivery.key_order import KeyOrder, passed_over
from integration.delivery.outcome import APPLIED, PARKED, Failed, Outcome, Waits
from integration.delivery.ports import PartitionManager, UnitOfWork
from integration.delivery.snapshot import QueueSnapshot
from integration.delivery.unit import Unit
from integration.handlers.failures import classify
from integration.handlers.outbound import Outbound
from integration.handlers.registry import Registration
from integration.policy.failure import Failure, FailureClass


@dataclass(frozen=True, slots=True)
class FailedAt:
    """An optimistic batch failed: at which place (None: not known), and why."""

    place: int | None
    failure: Failure


def stops(unit: Unit, outcome: Outcome, queue: QueueSnapshot) -> bool:
    """Return whether nothing behind this message may run before it has ended."""
    if not isinstance(outcome, Failed):
        return isinstance(outcome, Waits)
    if outcome.failure.kind is FailureClass.OUTAGE or waits_for_people(outcome.failure, queue):
        return True
    return queue.sequential and unit.moves


def pieces(units: Sequence[Unit]) -> Iterator[list[Unit]]:
    """Consecutive messages of one batch handler together, all others alone; order is kept.

    One whose outcome is known is alone, too: a call answers for each message of its piece.
    """
    piece: list[Unit] = []
    open_to: Registration | None = None
    for unit in units:
        taker = unit.taker if unit.known is None else None
        if taker is not None and taker is open_to:
            piece.append(unit)
            continue
        if piece:
            yield piece
        piece = [unit]
        open_to = taker if taker is not None and taker.batch else None
    if piece:
        yield piece


def groups(units: Sequence[Unit], together: int) -> Iterator[list[Unit]]:
    """Group so many consecutive messages at a time; all of one call of a batch handler are one."""
    group: list[Unit] = []
    for piece in pieces(units):
        if _is_one_call(piece):
            if group:
                yield group
            yield piece
            group = []
            continue
        group += piece
        if len(group) >= together:
            yield group
            group = []
    if group:
        yield group


def _is_one_call(units: Sequence[Unit]) -> bool:
    """Return whether a batch handler takes them: its word on the culprit's place may be wrong."""
    taker = units[0].taker if units[0].known is None else None
    return taker is not None and taker.batch


class HandlerTransaction:
    """The handler calls of one transaction. Made for one attempt, used once.

    `keys` is None where the messages of a key need not keep their order. `call_one` calls the
    handler of one message.
    """

    def __init__(
        self,
        work: UnitOfWork,
        outbound: Outbound,
        queue: QueueSnapshot,
        manager: PartitionManager,
        *,
        keys: KeyOrder | None = None,
        call_one: Callable[[Unit], Outcome] = call_one,
    ) -> None:
        self.work = work
        self.outbound = outbound
        self.queue = queue
        self.manager = manager
        self.keys = keys
        self.call_one = call_one

    def optimistic(self, units: Sequence[Unit]) -> list[Outcome] | FailedAt:
        """All in one go; ends at the first failure of a handler, or after a known stop."""
        if self.keys is not None:
            self.keys.judge(units)
        result = self._run(units)
        # Where one message is alone, a constraint that the commit breaks is its own.
        if isinstance(result, FailedAt) or len(units) == 1:
            return result
        try:
            self.work.check()
        except DatabaseError as e:
            return FailedAt(None, classify(e))
        return result

    def with_savepoints(self, units: Sequence[Unit], together: int = 1) -> list[Outcome]:
        """Run so many under one savepoint: a failure undoes those before it there, which run again.

        A failure stays alone with its message all the same. May end early: a stop.
        """
        self.work.savepoint()
        outcomes: list[Outcome] = []
        for group in groups(units, together):
            outcomes += self._guarded(group)
            if stops(units[len(outcomes) - 1], outcomes[-1], self.queue):
                break
        return outcomes

    def _run(self, units: Sequence[Unit]) -> list[Outcome] | FailedAt:
        outcomes: list[Outcome] = []
        for piece in self._pieces(units, outcomes):
            result = self._call(piece)
            if isinstance(result, FailedAt):
                place = None if result.place is None else len(outcomes) + result.place
                return FailedAt(place, result.failure)
            outcomes += result
            if result[-1] is not APPLIED and stops(piece[-1], result[-1], self.queue):
                break
        return outcomes

    def _pieces(self, units: Sequence[Unit], outcomes: list[Outcome]) -> Iterator[list[Unit]]:
        """Pieces of what may run after these outcomes, which grow meanwhile."""
        if self.keys is None:
            yield from pieces(units)
            return
        keys, place = self.keys.copy(), 0
        rest = pieces(units)
        while (piece := next(rest, None)) is not None:
            yield piece
            place += len(piece)
            if keys.note_all(piece, outcomes[place - len(piece) :]):
                behind = units[place:]
                keys.judge(behind)
                rest = pieces(behind)

    def _call(self, piece: list[Unit]) -> list[Outcome] | FailedAt:
        unit = piece[0]
        if unit.known is not None:
            return [unit.known]
        self.manager.working()
        self.outbound.begin(unit.message, together=len(piece))
        if unit.taker is not None and unit.taker.batch:
            return self._call_batch(piece)
        outcome = self.call_one(unit)
        if isinstance(outcome, Failed):
            return FailedAt(0, outcome.failure)
        if self.work.is_broken():
            return FailedAt(0, SWALLOWED)
        return [outcome]

    def _call_batch(self, piece: list[Unit]) -> list[Outcome] | FailedAt:
        taker = piece[0].taker
        if taker is None:
            return [APPLIED] * len(piece)
        result = call_batch(taker.call, piece)
        if isinstance(result, tuple):
            return FailedAt(*result)
        if self.work.is_broken():
            return FailedAt(None, SWALLOWED)
        if result.count(APPLIED) == len(result):
            return result
        return self._past_none(piece, result)

    def _past_none(self, piece: list[Unit], result: list[Outcome]) -> list[Outcome] | FailedAt:
        """The outcomes of one call, unless something in it ran that must not be kept."""
        passed = None if self.keys is None else passed_over(piece, result)
        if passed is not None:
            return FailedAt(*passed)
        for place, outcome in enumerate(result[:-1]):
            # What follows a stop in the same call has run already.
            if stops(piece[place], outcome, self.queue) and isinstance(outcome, Failed):
                return FailedAt(place, outcome.failure)
        return result

    def _guarded(self, units: Sequence[Unit]) -> list[Outcome]:
        """A group under its savepoint; what stands behind a failure of its key is left out."""
        if self.keys is None:
            return self._saved(units)
        self.keys.judge(units)
        if len(units) == 1 or not any(unit.known is PARKED for unit in units):
            outcomes = self._saved(units)
        else:
            outcomes = self._in_parts(pieces(units), units, {})
        self.keys.note_all(units, outcomes)
        return outcomes

    def _in_parts(
        self,
        parts: Iterable[Sequence[Unit]],
        units: Sequence[Unit],
        judged: Mapping[int, Outcome],
    ) -> list[Outcome]:
        """Consecutive parts of these messages, one after the other, up to the first stop.

        A part that begins at a place of `judged` is one message, whose outcome stands there.
        """
        outcomes: list[Outcome] = []
        for part in parts:
            known = judged.get(len(outcomes))
            outcomes += self._guarded(part) if known is None else self._judged(part, known)
            if stops(units[len(outcomes) - 1], outcomes[-1], self.queue):
                break
        return outcomes

    def _saved(self, units: Sequence[Unit]) -> list[Outcome]:
        """A group under its savepoint; where it fails it is narrowed down to the culprit."""
        if len(units) == 1 and units[0].known is not None:
            return [units[0].known]
        mark = self.outbound.mark
        result = self._run(units)
        if not isinstance(result, FailedAt):
            try:
                self.work.keep()
                return result
            except DatabaseError as e:
                result = FailedAt(None, classify(e))
        if self.work.is_lost():
            return [Failed(result.failure)]
        self.work.undo()
        self.outbound.back(mark)
        return self._narrowed(units, result)

    def _narrowed(self, units: Sequence[Unit], failed: FailedAt) -> list[Outcome]:
        culprit = Failed(failed.failure)
        is_one_call = _is_one_call(units)
        if len(units) == 1 or (is_one_call and failed.failure.kind is FailureClass.OUTAGE):
            return [culprit]
        place = failed.place
        if place is None:
            middle = len(units) // 2
            return self._in_parts([units[:middle], units[middle:]], units, {})
        parts = filter(None, (units[:place], units[place : place + 1], units[place + 1 :]))
        # It failed behind the same messages already: trying it again would tell nothing new.
        return self._in_parts(parts, units, {} if is_one_call else {place: culprit})

    def _judged(self, units: Sequence[Unit], outcome: Outcome) -> list[Outcome]:
        if self.keys is not None:
            self.keys.note_all(units, [outcome])
        return [outcome]
