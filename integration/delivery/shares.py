"""The share of a run: what it takes and gives up while other runs of its queue come and go.

Each run knows its share from what the database shows of all of them, so nobody has to agree with
anybody: who holds more gives up its last partitions between two batches, who holds less takes
what is free. In group mode the share is what the consumer group assigned. Sequential queues have
one partition, and nothing to share but with a group.
"""

from typing import Final

from integration.delivery.context import RunContext
from integration.delivery.owned import Owned
from integration.policy import shares
from integration.policy.shares import Runs
from integration.values import Assignment

LOOK_EVERY_SECONDS: Final = 0.4
# A queue that is read up to its end within this time is no quicker with another run.
BUSY_SECONDS: Final = 1.0
HELP_EVERY_SECONDS: Final = 1.0
# In group mode a run beside the others may be one that is about to notice that it is too many.
TOO_MANY_SECONDS: Final = 3.0


class Shares:
    """Keeps what a run holds at its share. `held` is the run's own list, changed in place."""

    def __init__(self, context: RunContext, held: list[Owned]) -> None:
        now = context.monotonic()
        self.context = context
        self.held = held
        self._looked_at = now
        self._rested_at = now
        self._asked_at = float("-inf")
        self._had_share_at = now

    def balance(self, *, drained: bool) -> list[Owned]:
        """Give up what is beyond the share, or take what is free; returns what was taken.

        To be called between batches. Asks for another run once this one has been busy for a while.
        """
        now = self.context.monotonic()
        if drained:
            self._rested_at = now
        if now - self._looked_at < LOOK_EVERY_SECONDS:
            return []
        queue, assignment = self.context.queue, self.context.source.assigned()
        if queue.sequential and assignment is None:
            return []
        self._looked_at = now
        # Also where one run is enough: there may be more, of a time when several were allowed.
        runs = self.context.manager.runs()
        if assignment is None:
            taken = self._by_rank(runs)
        else:
            taken = self._by_group(assignment, is_one_too_many=self._is_one_too_many(runs, now))
        self.held += taken
        if shares.lacks_runs(runs, queue.workers) and self._wants_help(now):
            self._asked_at = now
            self.context.manager.ask_for_help()
        return taken

    def _by_rank(self, runs: Runs) -> list[Owned]:
        share = shares.share(runs, self.context.queue.workers)
        self._keep(self.held[:share])
        more = share - len(self.held)
        return self.context.manager.take_more(more) if self.held else []

    def _is_one_too_many(self, runs: Runs, now: float) -> bool:
        """Return whether it has had no share for a while. Of a sequential queue it always has."""
        if self.context.queue.sequential or shares.share(runs, self.context.queue.workers):
            self._had_share_at = now
        return now - self._had_share_at >= TOO_MANY_SECONDS

    def _by_group(self, assignment: Assignment, *, is_one_too_many: bool) -> list[Owned]:
        """Hold what the group assigned, as far as it is free; a run too many leaves the group.

        A member that was lost comes back as another one: somebody else may have been assigned its
        partitions meanwhile, so all are taken anew.
        """
        member = assignment.member
        permitted = frozenset() if is_one_too_many else assignment.partitions
        self._keep([o for o in self.held if o.partition in permitted and o.member == member])
        lacking = permitted.difference(owned.partition for owned in self.held)
        if not lacking:
            return []
        return self.context.manager.take_assigned(Assignment(member, lacking))

    def _keep(self, kept: list[Owned]) -> None:
        """Hold these of what is held, and give up the rest."""
        surplus = [owned for owned in self.held if owned not in kept]
        self.held[:] = kept
        if surplus:
            self.context.manager.give_up(surplus)

    def _wants_help(self, now: float) -> bool:
        is_busy = now - self._rested_at >= BUSY_SECONDS
        is_time = now - self._asked_at >= HELP_EVERY_SECONDS
        return is_busy and is_time and len(self.held) > 1
