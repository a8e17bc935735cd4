"""A batch in threads: shares of it side by side, each message in a commit with its own effects.

The threads know the partition as it was when the batch began. Whatever they find out is told to the
run's own thread, which alone decides what is tried next, and remembers all of it in the end.
"""

from collections.abc import Sequence
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import partial

from integration.delivery.attempt import Fenced, Settled, remember, tried, wake
from integration.delivery.batch_outcome import BatchOutcome
from integration.delivery.context import RunContext
from integration.delivery.handler_transaction import FailedAt
from integration.delivery.owned import Owned
from integration.delivery.parts import Todo
from integration.delivery.ports import LostError
from integration.delivery.report import Report
from integration.delivery.steps import Step
from integration.delivery.threads import Threads, Turn
from integration.delivery.unit import Unit


@dataclass(slots=True)
class ThreadsEnded:
    """What came of the threads: what was committed, and whether a commit was refused."""

    batch_outcomes: list[BatchOutcome] = field(default_factory=list)
    is_fenced: bool = False


class SideBySide:
    """Delivers the shares of one batch. Made for one batch, used once."""

    def __init__(self, context: RunContext, owned: Owned, report: Report, threads: Threads) -> None:
        self.context = context
        self.owned = owned
        self.report = report
        self.threads = threads
        self._settled: list[Settled] = []
        self._under_way = 0
        self._is_over = self._is_fenced = False

    def deliver(self, shares: Sequence[Sequence[Unit]]) -> ThreadsEnded:
        """Work until all shares are through, or one may not go on. Raises LostError."""
        try:
            for share in shares:
                self._start(Todo(self.context, self.owned, share))
            while self._under_way:
                self._under_way -= 1
                self._end(self.threads.finished())
        finally:
            self.threads.wait()
        for settled in self._settled:
            remember(self.owned, settled)
        outcomes = [settled.batch_outcome for settled in self._settled]
        return ThreadsEnded(outcomes, self._is_fenced)

    def _start(self, todo: Todo) -> None:
        """Let a thread try the next part of its share, if there is one and nothing stops it."""
        part = None if self._is_over else todo.next()
        if part is None:
            return
        # What log lines of this run carry, those of its threads carry, too.
        act = partial(copy_context().run, tried, self.context, self.owned, part.units, part.mode)
        self._under_way += 1
        self.threads.start(Turn(todo, part, act))

    def _end(self, turn: Turn) -> None:
        if turn.result is None:
            raise turn.failure or LostError
        match turn.result:
            case Fenced():
                self._is_over = self._is_fenced = True
            case FailedAt() as failed:
                self.context.observer.step(Step.UNDONE)
                turn.todo.narrow(turn.part, failed)
            case Settled() as settled:
                self._settle(turn, settled)
        self._start(turn.todo)

    def _settle(self, turn: Turn, settled: Settled) -> None:
        self._settled.append(settled)
        self.report.add(settled.batch_outcome)
        turn.todo.settle(turn.part, settled.count)
        self._is_over = self._is_over or settled.batch_outcome.stop is not None
        wake(self.context, self.owned, settled)
