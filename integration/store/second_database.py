"""The transaction of a queue's second database, which commits with the engine's or not at all.

It is prepared after the engine's and finished before it: as long as it is in doubt, the engine's
prepared transaction is there to tell of it, and holds the partition.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Final

import psycopg
from django.conf import settings
from django.db import DatabaseError, InterfaceError, connections, transaction
from django.utils.connection import ConnectionDoesNotExist

from integration.delivery.ports import LostError
from integration.delivery.snapshot import QueueSnapshot
from integration.handlers.databases import enrolled
from integration.handlers.failures import OutageError
from integration.policy.branches import Branch, Decision, Second, branch_of, prefix
from integration.store import prepared
from integration.store.open_transaction import BEGIN, OpenTransaction
from integration.store.sessions import Session, raw_connection

_WRITTEN: Final = b"SELECT pg_current_xact_id_if_assigned()"
_LEFT: Final = (
    "SELECT gid FROM pg_prepared_xacts WHERE database = current_database() AND starts_with(gid, %s)"
)
_FATE: Final = (
    "SELECT EXISTS (SELECT 1 FROM pg_prepared_xacts WHERE gid = %s), pg_xact_status(%s::xid8)"
)
_FATES: Final = {"committed": Decision.COMMIT, "aborted": Decision.ROLLBACK}


class SecondDatabaseDownError(OutageError):
    """The second database of a queue does not answer, or is not configured (any more)."""

    code = "SECOND_DATABASE_DOWN"

    def __init__(self, name: str, error: Exception) -> None:
        super().__init__(
            f"The queue's second database, {name!r}, does not answer: {str(error).strip()}"
        )
        self.next_step = "See to it that it runs, and that SLUICE_OTHER_DATABASES names it."


class SecondTransaction:
    """One batch's transaction there: opened when the first handler is called.

    Implements handlers.databases.Enrolled and delivery.two_phase.Preparable. Without an alias there
    is none. Whoever makes it lends the stack on which it ends.
    """

    def __init__(self, alias: str, stack: ExitStack) -> None:
        self.alias = alias
        self._stack = stack
        self._opened: OpenTransaction | None = None
        self._saves = False

    def begin(self) -> None:
        if self._opened is not None:
            return
        try:
            self._opened = self._begun()
        except (DatabaseError, InterfaceError, ConnectionDoesNotExist) as e:
            raise SecondDatabaseDownError(self.alias, e) from e
        if self._saves:
            self._opened.savepoint()

    def _begun(self) -> OpenTransaction:
        """Begin; a connection that broke since the last batch is made anew."""
        try:
            return self._tried()
        except (DatabaseError, InterfaceError):
            connections[self.alias].close()
        return self._tried()

    def _tried(self) -> OpenTransaction:
        with ExitStack() as stack:
            stack.enter_context(transaction.atomic(using=self.alias, durable=True))
            opened = OpenTransaction(connections[self.alias])
            opened.frame(BEGIN)
            self._stack.push(stack.pop_all())
            return opened

    def savepoint(self) -> None:
        self._saves = True
        if self._opened is not None:
            self._opened.savepoint()

    def keep(self) -> None:
        if self._opened is not None:
            self._opened.keep()

    def undo(self) -> None:
        if self._opened is not None:
            self._opened.undo()

    def check(self) -> None:
        if self._opened is not None:
            self._opened.check()

    def abandon(self) -> None:
        if self._opened is not None:
            self._opened.abandon()

    def is_broken(self) -> bool:
        return self._opened is not None and self._opened.is_broken()

    def is_lost(self) -> bool:
        return self._opened is not None and self._opened.is_lost()

    def written(self) -> Second | None:
        """Return its name and number once anything was written there; None before."""
        if self._opened is None:
            return None
        xid = self._opened.frame(_WRITTEN).get_value(0, 0)
        return None if xid is None else Second(self.alias, int(xid))

    def prepare(self, branch: Branch) -> None:
        if self._opened is not None:
            prepared.prepare(self._opened, branch.name_in_second)

    def finish(self, branch: Branch, decision: Decision) -> None:
        if self._opened is None:
            return
        try:
            prepared.finish(self._opened, branch.name_in_second, decision)
        except (DatabaseError, InterfaceError) as e:
            # Whoever owns the partition next finishes it: see `settle`.
            raise LostError(f"The branch {branch} is left in {self.alias!r}: {e}") from e


@contextmanager
def beside(queue: QueueSnapshot) -> Iterator[SecondTransaction]:
    """Let handlers write to the queue's second database, in a transaction of their batch."""
    alias = queue.second_database if queue.two_phase else ""
    with ExitStack() as stack:
        second = SecondTransaction(alias, stack)
        token = enrolled.set(second if alias else None)
        try:
            yield second
        finally:
            enrolled.reset(token)


def settle(branch: Branch, decision: Decision) -> Decision:
    """Finish what is left of a branch in its second database; return the decision.

    Where Kafka does not know it, the second database may: it is finished first, and its number
    tells how. Raises SecondDatabaseDownError.
    """
    second = branch.second
    if second is None:
        return decision
    with _session(second.alias) as session:
        if decision is Decision.UNKNOWN:
            row = session.execute(_FATE, [branch.name_in_second, str(second.xid)]).fetchone()
            is_there, status = row or (True, "")
            return decision if is_there else _FATES.get(status, decision)
        prepared.finish_left(session, branch.name_in_second, decision)
    return decision


def left(alias: str) -> Sequence[Branch]:
    """Return this deployment's branches that stand prepared there. Raises as `settle`."""
    own = settings.SLUICE_DEPLOYMENT
    with _session(alias) as session:
        rows = session.execute(_LEFT, [prefix(own)]).fetchall()
    branches = [branch_of(own, gid) for (gid,) in rows]
    return [branch for branch in branches if branch is not None]


def roll_back(alias: str, branches: Iterable[Branch]) -> None:
    """Roll back what is prepared there and nowhere else. Raises as `settle`."""
    with _session(alias) as session:
        for branch in branches:
            prepared.finish_left(session, branch.name_in_second, Decision.ROLLBACK)


@contextmanager
def _session(alias: str) -> Iterator[Session]:
    try:
        with raw_connection("sluice-branches", alias) as session:
            yield session
    except (psycopg.Error, ConnectionDoesNotExist) as e:
        raise SecondDatabaseDownError(alias, e) from e
