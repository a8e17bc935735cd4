"""The share of a run: what it takes and gives up while other runs of its queue come and go.

Each run knows its share from what the database shows of all of them, so nobody has to agree with
anybody: who holds more gives up its last partitions between two batches, who holds less takes
what is free. Sequential queues have one partition, and nothing to share.
"""

from typing import Final

from integration.delivery.context import RunContext
from integration.delivery.owned import Owned
from integration.policy import shares

LOOK_EVERY_SECONDS: Final = 0.4
# A queue that is read up to its end within this time is no quicker with another run.
BUSY_SECONDS: Final = 1.0
HELP_EVERY_SECONDS: Final = 1.0


class Shares:
    """Keeps what a run holds at its share. `held` is the run's own list, changed in place."""

    def __init__(self, context: RunContext, held: list[Owned]) -> None:
        now = context.monotonic()
        self.context = context
        self.held = held
        self._looked_at = now
        self._rested_at = now
        self._asked_at = float("-inf")

    def balance(self, *, drained: bool) -> list[Owned]:
        """Give up what is beyond the share, or take what is free; returns what was taken.

        To be called between batches. Asks for another run once this one has been busy for a while.
        """
        now = self.context.monotonic()
        if drained:
            self._rested_at = now
        queue = self.context.queue
        if queue.sequential or now - self._looked_at < LOOK_EVERY_SECONDS:
            return []
        self._looked_at = now
        # Also where one run is enough: there may be more, of a time when several were allowed.
        runs, workers = self.context.manager.runs(), queue.workers
        share = shares.share(runs, workers)
        surplus, self.held[share:] = self.held[share:], []
        if surplus:
            self.context.manager.give_up(surplus)
        taken = self.context.manager.take_more(share - len(self.held)) if self.held else []
        self.held += taken
        if shares.lacks_runs(runs, workers) and self._wants_help(now):
            self._asked_at = now
            self.context.manager.ask_for_help()
        return taken

    def _wants_help(self, now: float) -> bool:
        is_busy = now - self._rested_at >= BUSY_SECONDS
        is_time = now - self._asked_at >= HELP_EVERY_SECONDS
        return is_busy and is_time and len(self.held) > 1
