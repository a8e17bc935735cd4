"""The stations of the engine, told to an observer. Only tests observe so far, to crash it there."""

from enum import StrEnum
from typing import Protocol


class Step(StrEnum):
    """The point a run has reached. Each is reported between two effects, never inside one."""

    TAKEN = "taken"  # locks held, epochs raised, positions known
    ATTACHED = "attached"  # assigned at the positions
    FETCHED = "fetched"  # a batch is in memory
    MARKED = "marked"  # a crash suspect's marker is committed
    INTENDED = "intended"  # sending: the calls about to be made are committed
    SENT = "sent"  # sending: an answer is there, not yet settled
    BEGUN = "begun"  # transaction open, arrival number drawn
    HANDLED = "handled"  # handlers have run
    CHECKED = "checked"  # deferred constraints hold
    SETTLED = "settled"  # all consequences written, not committed
    WRITTEN = "written"  # two-phase commit: what it publishes is in Kafka's open transaction
    PREPARED = "prepared"  # two-phase commit: a database's transaction is prepared
    DECIDED = "decided"  # two-phase commit: Kafka's transaction is committed
    FINISHED = "finished"  # two-phase commit: a database has committed or rolled back
    COMMITTED = "committed"  # the instant after the commit
    UNDONE = "undone"  # a batch was rolled back and is narrowed down
    GROUP_COMMITTED = "group_committed"  # the group offset for lag tools is on its way
    RELEASED = "released"  # locks given back


class Observer(Protocol):
    """An observer of every step; must not raise."""

    def step(self, step: Step) -> None: ...


class Silent:
    """An observer that does nothing."""

    def step(self, step: Step) -> None:
        """Nothing listens."""
