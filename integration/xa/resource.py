"""The resource: branches of transactions over several resources, as X/Open's XA has them."""

import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from datetime import datetime, timedelta
from typing import Final

from integration.errors import IntegrationError
from integration.kafka.errors import SendFailedError
from integration.kafka.slots import Headers, Slot, SlotLostError
from integration.policy.states import BranchState
from integration.store.sessions import fetch_all
from integration.xa.active import Active
from integration.xa.branch import Branch, Place, Vote
from integration.xa.errors import (
    XaDuplicateError,
    XaHeuristicCommitError,
    XaHeuristicRollbackError,
    XaProtocolError,
    XaRolledBackError,
    XaTimedOutError,
    XaUnavailableError,
    XaUnknownError,
)
from integration.xa.home import Home
from integration.xa.outgoing import Outgoing
from integration.xa.ports import Slots, TransactionLog
from integration.xa.side_topic import SideTopic
from integration.xa.steps import XaObserver, XaStep, unobserved
from integration.xa.xid import Xid

log = logging.getLogger(__name__)

# Two that want the same branch fence each other in turn; after so many one of them gives up.
TRIES: Final = 4
# Recovery, which comes every minute, looks each time and tells people.
CHECKED_SECONDS: Final = 600.0
_BY_A_PERSON: Final = {
    BranchState.COMMITTED: XaHeuristicCommitError,
    BranchState.ROLLED_BACK: XaHeuristicRollbackError,
}


class XaResource:
    """The branches of one factory. Safe for several threads, each with branches of its own.

    Every call may also raise BrokerUnreachableError and other errors with a code: to a
    coordinator all of them are XAER_RMFAIL, see `errors.xa_code`.
    """

    def __init__(
        self, home: Home, log: TransactionLog, side: SideTopic, slots: Slots, timeout: float
    ) -> None:
        self.home, self.name = home, home.name
        self.timeout = timeout
        self.observer: XaObserver = unobserved
        self._log, self._side, self._slots = log, side, slots
        self._active: dict[Xid, Active] = {}
        self._turn = threading.Lock()
        self._checked_at: float | None = None

    def observe(self, observer: XaObserver) -> None:
        """Tell of each step from now on."""
        self.observer = self._log.observer = observer

    def start(self, xid: Xid) -> None:
        """Begin a branch. Raises XaDuplicateError, and what is wrong with the topics."""
        self._check()
        self._give_up_old()
        if self._log.find(xid) is not None:
            raise XaDuplicateError(xid)
        with self._turn:
            if xid in self._active:
                raise XaDuplicateError(xid)
            self._active[xid] = Active()
        self.observer(XaStep.STARTED)

    def send(
        self,
        xid: Xid,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        headers: Headers | None = None,
    ) -> None:
        """Put a message into the branch. It is with Kafka once the branch has ended.

        Until then it is kept here: a transaction of Kafka that was open for as long as the
        application's own would keep readers of the side topic waiting, or be over too soon.
        """
        active = self._own(xid)
        if active is None or active.is_ended:
            raise XaProtocolError(xid, "send", self._standing(xid))
        active.messages.append(Outgoing(topic, value, key, headers or []))
        self.observer(XaStep.SENT)

    def has_sent(self, xid: Xid) -> bool:
        """Whether there is anything in a branch that has not ended."""
        active = self._own(xid)
        return active is not None and bool(active.messages)

    def end(self, xid: Xid) -> None:
        """The application has sent all: it is in the side topic and in the log, or nothing is.

        Raises XaRolledBackError, XaProtocolError.
        """
        active = self._own(xid)
        if active is None or active.is_ended:
            raise XaProtocolError(xid, "end", self._standing(xid))
        if active.messages:
            try:
                self._write(xid, active)
            except (SendFailedError, SlotLostError) as problem:
                # Should it be in the log after all, it is a started one, which nobody prepares.
                self._forget(xid, is_whole=False)
                raise XaRolledBackError(xid, str(problem)) from problem
            except BaseException:
                self._forget(xid, is_whole=False)
                raise
        active.is_ended, active.messages = True, []
        self.observer(XaStep.ENDED)

    def prepare(self, xid: Xid) -> Vote:
        """Promise that it can be committed, whatever happens meanwhile.

        Raises XaTimedOutError, XaUnknownError, XaProtocolError.
        """
        active = self._own(xid)
        if active is not None and not active.is_ended:
            raise XaProtocolError(xid, "prepare", "started")
        if active is not None and time.monotonic() - active.started > self.timeout:
            self.rollback(xid)
            raise XaTimedOutError(xid, self.timeout)
        if active is not None and active.branch is None:
            self._forget(xid)
            return Vote.READ_ONLY
        self._act(xid, self._prepared)
        self.observer(XaStep.PREPARED)
        return Vote.READY

    def _prepared(self, slot: Slot, branch: Branch) -> None:
        if branch.state is not BranchState.PREPARED:
            self._check_not_decided(branch)
            branch = self._log.prepare(slot, branch)
        if (active := self._own(branch.xid)) is not None:
            active.branch = branch

    def commit(self, xid: Xid, *, one_phase: bool = False) -> None:
        """Deliver the messages and forget the branch, both at once.

        With `one_phase` it needs no `prepare` before. Raises XaUnknownError, XaProtocolError,
        XaSideLostError, XaHeuristicCommitError, XaHeuristicRollbackError.
        """
        active = self._own(xid)
        if one_phase and active is not None and active.is_ended and active.branch is None:
            self._forget(xid)
            return

        def committed(slot: Slot, branch: Branch) -> None:
            self._check_not_decided(branch)
            if branch.state is not BranchState.PREPARED and not one_phase:
                raise XaProtocolError(xid, "commit", branch.state)
            self._deliver(slot, branch)

        self._over(xid, committed)
        self.observer(XaStep.COMMITTED)

    def rollback(self, xid: Xid) -> None:
        """Forget the branch, and with it what was sent.

        Raises XaUnknownError, XaHeuristicCommitError, XaHeuristicRollbackError.
        """
        active = self._own(xid)
        if active is not None and active.branch is None:
            self._forget(xid)
            return

        def rolled_back(slot: Slot, branch: Branch) -> None:
            self._check_not_decided(branch)
            self._log.finish(slot, branch)

        self._over(xid, rolled_back)

    def recover(self) -> list[Branch]:
        """The branches that are in the log: prepared ones, started ones, and decided by a person.

        A started one of this deployment that is older than the timeout is rolled back instead; a
        prepared one is the coordinator's, however old it is.
        """
        self._check(anew=True)
        oldest = self.oldest()
        return [one for one in self._log.branches() if not self._is_expired(one, oldest)]

    def oldest(self) -> datetime:
        """The moment before which nothing was started that may still be under way."""
        [(now,)] = fetch_all("SELECT clock_timestamp()")
        moment: datetime = now - timedelta(seconds=self.timeout)
        return moment

    def is_ours(self, branch: Branch) -> bool:
        """Return whether this deployment has written it; others may share the log."""
        return self._slots.is_ours(branch.owner)

    def _is_expired(self, branch: Branch, oldest: datetime) -> bool:
        is_old = branch.state is BranchState.STARTED and branch.started_at < oldest
        return is_old and self.is_ours(branch) and self._expire(branch)

    def branches(self) -> list[Branch]:
        """What is in the log, for people: nothing is done about it."""
        self._check(anew=True)
        return self._log.branches()

    def _expire(self, branch: Branch) -> bool:
        """Roll back a started branch; False where it cannot be done now."""

        def expired(slot: Slot, found: Branch) -> None:
            # It may have been prepared since.
            if found.state is BranchState.STARTED and found.mark == branch.mark:
                self._log.finish(slot, found)

        try:
            self._over(branch.xid, expired)
        except (XaUnknownError, XaProtocolError):
            # It is over, or was given to a new transaction meanwhile.
            return True
        except IntegrationError as problem:
            # Those of others are not to wait for it.
            log.warning("The branch %s cannot be rolled back now: %s", branch.xid, problem)
            return False
        return True

    def forget(self, xid: Xid) -> None:
        """The coordinator knows what a person has decided.

        Raises XaUnknownError, XaProtocolError.
        """

        def forgotten(slot: Slot, branch: Branch) -> None:
            if branch.state not in _BY_A_PERSON:
                raise XaProtocolError(xid, "forget", branch.state)
            self._log.finish(slot, branch)

        self._over(xid, forgotten)

    def decide(self, xid: Xid, *, commit: bool) -> None:
        """A person decides instead of the coordinator, who is told when it asks.

        What is not prepared can be rolled back only, and is forgotten: nothing was promised.
        Raises XaUnknownError, XaProtocolError, XaSideLostError.
        """

        def decided(slot: Slot, branch: Branch) -> None:
            if branch.state is BranchState.STARTED and not commit:
                self._log.finish(slot, branch)
                return
            if branch.state is not BranchState.PREPARED:
                raise XaProtocolError(xid, "decide", branch.state)
            if commit:
                self._deliver(slot, branch, BranchState.COMMITTED)
            else:
                self._log.finish(slot, branch, becomes=BranchState.ROLLED_BACK)

        self._over(xid, decided)

    def close(self) -> None:
        """End what is open for looks; branches that are at work go on, and open it again."""
        self._log.close()
        self._side.close()

    def _check(self, *, anew: bool = False) -> None:
        """See that the topics are what they have to be: they may be changed at any time."""
        now, checked_at = time.monotonic(), self._checked_at
        if anew or checked_at is None or now - checked_at > CHECKED_SECONDS:
            self._checked_at = None
            self._log.check()
            self._side.check()
            self._checked_at = now

    def _write(self, xid: Xid, active: Active) -> None:
        self._side.targets.check(self.name, active.messages)
        slot = active.slot = active.held.enter_context(self._slots.taken())
        mark = uuid.uuid4().hex

        def write() -> Place:
            place = self._side.write(slot, mark, active.messages)
            self.observer(XaStep.WRITTEN)
            return place

        active.branch = self._log.open(slot, xid, mark, write)

    def _deliver(self, slot: Slot, branch: Branch, becomes: BranchState | None = None) -> None:
        def copy() -> None:
            self._side.copy(branch, slot)
            self.observer(XaStep.COPIED)

        self._log.finish(slot, branch, copy, becomes)

    def let_go(self, xid: Xid) -> None:
        """Nobody comes back for it here: the log has what recovery is to know of it."""
        with self._turn_of(xid):
            self._forget(xid, is_whole=False)

    def _over(self, xid: Xid, action: Callable[[Slot, Branch], None]) -> None:
        """Do what ends a branch, and give its slot back before anybody else may act on it."""
        with self._turn_of(xid):
            try:
                self._act(xid, action)
            except XaUnknownError as unknown:
                self._forget(xid)
                lost = unknown.__cause__
                # Nobody had fenced us: it was our own commit, whose answer was lost.
                if not isinstance(lost, SlotLostError) or not lost.may_be_done:
                    raise
            except (XaHeuristicCommitError, XaHeuristicRollbackError):
                self._forget(xid)
                raise
            self._forget(xid)

    def _act(self, xid: Xid, action: Callable[[Slot, Branch], None]) -> None:
        """Do something to a branch under its id, as often as another one fences us meanwhile."""
        with self._turn_of(xid) as active:
            if active is not None:
                if active.slot is None or active.branch is None:
                    raise XaProtocolError(xid, "a decision", BranchState.STARTED)
                return self._try(active.slot, active.branch, action)
        self._check()
        slot = self._slots.of(self._known(xid).owner)
        try:
            if (found := self._log.find_fenced(xid)) is None:
                raise XaUnknownError(xid)
            return self._try(slot, found, action)
        finally:
            slot.close()

    def _try(self, slot: Slot, branch: Branch, action: Callable[[Slot, Branch], None]) -> None:
        left = TRIES
        while True:
            try:
                return action(slot, branch)
            except SlotLostError as lost:
                left -= 1
                if not left:
                    # Who gives up shuts nobody out: the other's try may be its last, too.
                    raise XaUnavailableError(self.name, str(lost)) from lost
                found = self._fenced(slot, branch.xid)
                if found is None or found.mark != branch.mark:
                    raise XaUnknownError(branch.xid) from lost
                branch = found

    def _fenced(self, slot: Slot, xid: Xid) -> Branch | None:
        slot.fence()
        try:
            return self._log.find_fenced(xid)
        except BaseException:
            # Nobody knows what became of it: whoever comes next has to fence and look, too.
            slot.close()
            raise

    def _known(self, xid: Xid) -> Branch:
        if (found := self._log.find(xid)) is None:
            raise XaUnknownError(xid)
        return found

    def _own(self, xid: Xid) -> Active | None:
        with self._turn:
            return self._active.get(xid)

    @contextmanager
    def _turn_of(self, xid: Xid) -> Iterator[Active | None]:
        """Wait for the turn at a branch; None where it is not, or not any more, under way here."""
        active = self._own(xid)
        with nullcontext() if active is None else active.turn:
            yield active if self._own(xid) is active else None

    def _standing(self, xid: Xid) -> str:
        return "not begun here" if self._own(xid) is None else "ended"

    def _check_not_decided(self, branch: Branch) -> None:
        if branch.state in _BY_A_PERSON:
            raise _BY_A_PERSON[branch.state](branch.xid)

    def _forget(self, xid: Xid, *, is_whole: bool = True) -> None:
        with self._turn:
            active = self._active.pop(xid, None)
        if active:
            active.let_go(is_whole=is_whole)

    def _give_up_old(self) -> None:
        """Let go of those that nobody came back for: the log has what is to be known of them."""
        oldest = time.monotonic() - self.timeout
        with self._turn:
            old = [(xid, one) for xid, one in self._active.items() if one.started < oldest]
        for xid, active in old:
            if active.is_ended and active.turn.acquire(blocking=False):
                self._forget(xid, is_whole=False)
                active.turn.release()
