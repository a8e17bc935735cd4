"""Decisions about branches that belong to a transaction of our database: its commit decides.

The row of a decision is written in the transaction that it tells of, so it is there exactly if
that was committed. Until the transaction is over it holds a lock, taken before the branch is
prepared: who gets the lock and finds no row knows that there never will be one.
"""

import logging
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum
from typing import Final

from django.conf import settings
from django.db import Error, connections, transaction

from integration.errors import IntegrationError
from integration.kafka.errors import SendFailedError
from integration.store.locks import LockClass
from integration.xa.branch import Vote
from integration.xa.errors import (
    XaProtocolError,
    XaRolledBackError,
    XaSideLostError,
    XaUnknownError,
)
from integration.xa.resource import XaResource
from integration.xa.steps import XaStep
from integration.xa.xid import Xid

log = logging.getLogger(__name__)

# "SLUC": branches whose coordinator is a database of ours. Others' are left to their own.
FORMAT: Final = 0x534C5543
# One statement: the lock first, as nothing is inserted before it is there.
_DECIDE: Final = """
WITH held AS MATERIALIZED (SELECT pg_advisory_xact_lock(%s, %s))
INSERT INTO integration_xadecision (xid, factory, decided_at)
SELECT %s, %s, clock_timestamp() FROM held"""
_IS_OVER: Final = "SELECT pg_try_advisory_xact_lock(%s, %s)"
_IS_DECIDED: Final = "SELECT EXISTS (SELECT FROM integration_xadecision WHERE xid = %s)"
_FORGET: Final = "DELETE FROM integration_xadecision WHERE xid = %s"
_OF_A_FACTORY: Final = "SELECT xid FROM integration_xadecision WHERE factory = %s"
_IS_THERE: Final = "SELECT to_regclass('integration_xadecision') IS NOT NULL"


class Verdict(StrEnum):
    """What our databases say of a branch."""

    COMMIT = "commit"
    ROLLBACK = "rollback"
    OPEN = "open"  # the transaction that decides is not over
    FOREIGN = "foreign"  # somebody else decides


_SETTLED: Final = {
    Verdict.COMMIT: "committed and delivered by now",
    Verdict.ROLLBACK: "rolled back by now",
    Verdict.OPEN: "not decided yet",
    Verdict.FOREIGN: "decided by somebody else",
}


def fresh_xid(using: str) -> Xid:
    """An Xid that says which database of which installation decides."""
    return Xid.fresh(FORMAT, f"{settings.SLUICE_DEPLOYMENT}/{using}".encode())


def decider_of(xid: Xid) -> str:
    """Who decides about a branch, for people."""
    deployment, using = _place_of(xid)
    if xid.format_id != FORMAT:
        return "another coordinator"
    if deployment != settings.SLUICE_DEPLOYMENT:
        return f"the deployment {deployment}"
    lack = "" if using in connections.settings else ", which is not configured"
    return f"the database {using}{lack}"


def database_of(xid: Xid) -> str | None:
    """The alias of our database that decides about a branch; None for somebody else's."""
    deployment, using = _place_of(xid)
    is_ours = xid.format_id == FORMAT and deployment == settings.SLUICE_DEPLOYMENT
    return using if is_ours and using in connections.settings else None


def _place_of(xid: Xid) -> tuple[str, str]:
    """Deployment and database, as `fresh_xid` wrote them."""
    deployment, _, using = xid.branch.decode(errors="replace").rpartition("/")
    return deployment, using


def decide(xid: Xid, factory: str, using: str) -> None:
    """Let the transaction that is open decide: before the branch is prepared."""
    with connections[using].cursor() as cursor:
        cursor.execute(_DECIDE, [*_lock(xid), str(xid), factory])


def decide_for(resource: XaResource, xid: Xid, using: str) -> None:
    """As `decide`, for a branch of the resource, if recovery would find it there.

    Raises XaRolledBackError where its factory leads elsewhere by now, or is gone: the decision
    would be taken for that of a branch which is over.
    """
    if not resource.home.is_kept():
        raise XaRolledBackError(
            xid,
            f"the connection {resource.name!r} was deleted, or its name, provider, log or side "
            "topic has changed; look it up again",
        )
    decide(xid, resource.name, using)


def forget(xid: Xid, using: str) -> None:
    with connections[using].cursor() as cursor:
        cursor.execute(_FORGET, [str(xid)])


def verdict(xid: Xid) -> Verdict:
    """Ask the database that decides about a branch which is prepared. Raises DatabaseError."""
    using = database_of(xid)
    if using is None:
        return Verdict.FOREIGN
    with transaction.atomic(using=using), connections[using].cursor() as cursor:
        cursor.execute(_IS_OVER, _lock(xid))
        if cursor.fetchone() != (True,):
            return Verdict.OPEN
        # A statement of its own: it sees what was committed before the lock was free.
        cursor.execute(_IS_DECIDED, [str(xid)])
        return Verdict.COMMIT if cursor.fetchone() == (True,) else Verdict.ROLLBACK


def pending(factory: str) -> dict[Xid, str]:
    """The decisions that are not removed yet, and in which database each is.

    Those of a database that does not answer are left out.
    """
    found: dict[Xid, str] = {}
    for using in connections.settings:
        if using == settings.SLUICE_REPLICA or connections[using].vendor != "postgresql":
            continue
        try:
            found |= dict.fromkeys(_made_in(using, factory), using)
        except Error as problem:
            log.warning("The database %s does not tell its decisions: %s", using, problem)
    return found


def _made_in(using: str, factory: str) -> list[Xid]:
    """Decisions of this database's own: a copy of another one shows that one's, too."""
    with connections[using].cursor() as cursor:
        cursor.execute(_IS_THERE)
        if cursor.fetchone() != (True,):
            return []
        cursor.execute(_OF_A_FACTORY, [factory])
        shown = [Xid.parse(text) for (text,) in cursor.fetchall()]
    return [xid for xid in shown if database_of(xid) == using]


def _lock(xid: Xid) -> tuple[int, int]:
    """Two branches may share a lock: one of them is then looked at later."""
    return LockClass.XA, zlib.crc32(str(xid).encode()) - 2**31


def settle(resource: XaResource, xid: Xid) -> Verdict:
    """Do to a prepared branch what the database says. Raises DatabaseError, IntegrationError."""
    said = verdict(xid)
    if said in {Verdict.COMMIT, Verdict.ROLLBACK}:
        act: Callable[[Xid], None] = (
            resource.commit if said is Verdict.COMMIT else resource.rollback
        )
        # Somebody else may have been faster.
        with suppress(XaUnknownError):
            act(xid)
        if said is Verdict.COMMIT:
            forget(xid, database_of(xid) or "")
    return said


def finish(resource: XaResource, xid: Xid, using: str) -> None:
    """The database has committed: deliver the branch, and forget the decision.

    Where that cannot be done now, recovery does it, or tells people: it is decided, and nothing to
    raise for. Who was told of an error would do all of it again.
    """
    try:
        with suppress(XaUnknownError):
            # Recovery may have been faster.
            resource.commit(xid)
        forget(xid, using)
    except (Error, IntegrationError) as problem:
        log.warning("The branch %s is decided, its end is left to recovery: %s", xid, problem)
        resource.let_go(xid)
        return
    resource.observer(XaStep.FORGOTTEN)


def drop(resource: XaResource, xid: Xid) -> None:
    """A person gives up a branch that our database has committed and Kafka cannot deliver.

    It is tried once more, as what can be delivered has to be. Raises XaProtocolError where that
    has settled it, or the transaction that decides is not over; DatabaseError, IntegrationError.
    """
    try:
        said = settle(resource, xid)
    except (SendFailedError, XaSideLostError) as problem:
        log.warning("The branch %s is given up by a person: %s", xid, problem)
        # To the log it is over, whatever was decided.
        resource.rollback(xid)
        forget(xid, database_of(xid) or "")
        return
    raise XaProtocolError(xid, "to forget it", _SETTLED[said])


def give_up(resource: XaResource, xid: Xid, *, may_be_decided: bool) -> None:
    """The transaction ended with an error: its commit may have happened even so."""
    try:
        if may_be_decided:
            settle(resource, xid)
        else:
            resource.rollback(xid)
    except (Error, IntegrationError) as problem:
        if not isinstance(problem, XaUnknownError):
            log.warning("The branch %s is left to recovery: %s", xid, problem)
    finally:
        # Also where it is not known yet what the database has decided.
        resource.let_go(xid)


@contextmanager
def atomic(resource: XaResource, using: str) -> Iterator[Xid]:
    """A transaction of the database with a branch in it: both are committed, or neither is.

    Raises what the branch raises before the database has committed, and DatabaseError.
    """
    xid, vote = fresh_xid(using), Vote.READ_ONLY
    resource.start(xid)
    may_be_decided = False
    try:
        with transaction.atomic(using=using, durable=True):
            yield xid
            if resource.has_sent(xid):
                decide_for(resource, xid, using)
            resource.end(xid)
            vote = resource.prepare(xid)
            may_be_decided = vote is Vote.READY
    except BaseException:
        give_up(resource, xid, may_be_decided=may_be_decided)
        raise
    resource.observer(XaStep.DECIDED)
    if vote is Vote.READY:
        finish(resource, xid, using)
