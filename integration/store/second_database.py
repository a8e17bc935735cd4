"""The transaction of a queue's second database, which commits with the engine's or not at all.

It is prepared after the engine's and finished before it: as long as it is in doubt, the engine's
prepared transaction is there to tell of it, and holds the partition.
"""

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Final

import psycopg
from django.conf import settings
from django.db import DatabaseError, InterfaceError, connections, transaction
from django.utils.connection import ConnectionDoesNotExist
from psycopg.errors import InvalidParameterValue

from integration.delivery.snapshot import QueueSnapshot
from integration.delivery.two_phase import InDoubtError, NotPublishedError
from integration.handlers.databases import enrolled
from integration.handlers.failures import OutageError
from integration.policy.branches import (
    Branch,
    Decision,
    Second,
    branch_in_second,
    home_of,
    prefix,
)
from integration.store import deployments, prepared
from integration.store.open_transaction import BEGIN, OpenTransaction
from integration.store.sessions import Session, fetch_all, raw_connection

log = logging.getLogger(__name__)

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
        self._home = self._name = ""

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

    def try_keep(self) -> None:
        if self._opened is not None:
            self._opened.try_keep()

    def renew(self) -> None:
        if self._opened is not None:
            self._opened.renew()

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
        if xid is None:
            return None
        # Once the engine's transaction is prepared, a look would begin another one.
        self._home = home()
        return Second(self.alias, int(xid))

    def prepare(self, branch: Branch) -> None:
        if self._opened is None:
            return
        self._name = branch.name_in_second(self._home)
        try:
            prepared.prepare(self._opened, self._name)
        except NotPublishedError as e:
            failure = replace(e.failure, text=f"{e.failure.text} (In the database {self.alias!r}.)")
            raise NotPublishedError(failure) from e

    def finish(self, branch: Branch, decision: Decision) -> None:
        if self._opened is None:
            return
        try:
            prepared.finish(self._opened, self._name, decision)
        except (DatabaseError, InterfaceError) as e:
            raise InDoubtError(branch, f"{self.alias!r} does not answer: {e}") from e


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


def home() -> str:
    """Return what tells the engine's database in names. Raises DatabaseError."""
    [(database,)] = fetch_all(deployments.HOME)
    return home_of(str(database))


def settle(branch: Branch, decision: Decision) -> Decision:
    """Finish what is left of a branch in its second database; return the decision.

    It is finished first. So where it is gone, the number of its transaction tells what was decided,
    also if Kafka has forgotten. Where that is not what Kafka says, a person has to look. Raises
    SecondDatabaseDownError, DatabaseError.
    """
    second = branch.second
    if second is None:
        return decision
    name = branch.name_in_second(home())
    with _session(second.alias) as session:
        is_there, ended = _fate(session, name, second)
        if is_there:
            if decision is not Decision.UNKNOWN:
                prepared.finish_left(session, name, decision)
            return decision
    if decision in {ended, Decision.UNKNOWN}:
        return ended
    if decision is Decision.ROLLBACK and ended is Decision.UNKNOWN:
        # Its owner stands still before it has prepared it: see `roll_back` for what it does yet.
        return decision
    log.error("Kafka says %s of %s, and in %s is %s", decision, branch, second.alias, ended)
    return Decision.UNKNOWN


def _fate(session: Session, name: str, second: Second) -> tuple[bool, Decision]:
    """Return whether it is prepared there, and how it ended if it is not."""
    try:
        row = session.execute(_FATE, [name, str(second.xid)]).fetchone()
    except InvalidParameterValue:
        # A number that is still to come: this is another database than the one it was in.
        return False, Decision.UNKNOWN
    is_there, status = row or (False, "")
    return bool(is_there), _FATES.get(status, Decision.UNKNOWN)


def force(branch: Branch, decision: Decision) -> None:
    """Finish its part in the second database as a person says, if there is any. As `settle`."""
    if branch.second is None:
        return
    with _session(branch.second.alias) as session:
        prepared.finish_left(session, branch.name_in_second(home()), decision)


def left(alias: str) -> Sequence[Branch]:
    """Return the branches of this database that stand prepared there. Raises as `settle`."""
    own = home()
    with _session(alias) as session:
        rows = session.execute(_LEFT, [prefix(settings.SLUICE_DEPLOYMENT)]).fetchall()
    branches = [branch_in_second(gid, own) for (gid,) in rows]
    return [branch for branch in branches if branch is not None]


def roll_back(alias: str, branches: Iterable[Branch]) -> None:
    """Roll back what is prepared there and nowhere else. Raises as `settle`."""
    own = home()
    with _session(alias) as session:
        for branch in branches:
            prepared.finish_left(session, branch.name_in_second(own), Decision.ROLLBACK)


@contextmanager
def _session(alias: str) -> Iterator[Session]:
    try:
        with raw_connection("sluice-branches", alias) as session:
            yield session
    except (psycopg.Error, ConnectionDoesNotExist) as e:
        raise SecondDatabaseDownError(alias, e) from e
