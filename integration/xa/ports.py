"""What a resource needs: a log of its branches, and transactional ids to work under."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

from integration.kafka.slots import Slot
from integration.policy.states import BranchState
from integration.xa.branch import Branch, Place
from integration.xa.steps import XaObserver
from integration.xa.xid import Xid


class TransactionLog(Protocol):
    """Where the branches of a factory stand: what is in here outlives every process.

    A branch is changed under one transactional id only, by whoever has fenced it last. What a
    change is to be based on, `find_fenced` says once the fence is through. Each change happens as
    a whole or not at all, and is durable when the call has returned; the messages that belong to
    it are visible exactly when it has happened.
    All raise SlotLostError where another one has fenced meanwhile, and errors with a code.
    """

    observer: XaObserver

    def check(self) -> None:
        """Raise what makes the log useless: it is missing, or forgets."""

    def branches(self) -> list[Branch]:
        """All of them, for a look: one may be over by the time it is returned."""

    def find(self, xid: Xid) -> Branch | None:
        """The branch as of now, for a look; whatever was changed before the call counts."""

    def find_fenced(self, xid: Xid) -> Branch | None:
        """The branch as of now, behind the fence of its id: what was begun is done, or never is."""

    def open(self, slot: Slot, xid: Xid, mark: str, write: Callable[[], Place]) -> Branch:
        """Enter a branch as STARTED, together with the messages that `write` sends by the slot.

        Raises XaDuplicateError, as far as the log can tell.
        """

    def prepare(self, slot: Slot, branch: Branch) -> Branch:
        """From STARTED to PREPARED."""

    def finish(
        self,
        slot: Slot,
        branch: Branch,
        deliver: Callable[[], None] | None = None,
        becomes: BranchState | None = None,
    ) -> None:
        """Take it out of the log, or let it become what a person decided.

        With `deliver`, what it sends by the slot is visible exactly if that has happened.
        """

    def close(self) -> None:
        """End what it holds open."""


class Slots(Protocol):
    """Transactional ids of a factory."""

    def taken(self) -> AbstractContextManager[Slot]:
        """One that nobody else works under."""

    def is_ours(self, owner: str) -> bool:
        """Return whether a connection of this deployment had the id."""

    def of(self, owner: str) -> Slot:
        """That of a branch, fenced: it was perhaps left by a process that died."""
