"""PREPARE TRANSACTION, and what ends a transaction that was prepared."""

from contextlib import suppress
from typing import Any, Final

import psycopg
from django.db import DatabaseError
from psycopg import sql
from psycopg.errors import UndefinedObject

from integration.delivery.ports import LostError
from integration.delivery.two_phase import NotPublishedError
from integration.policy.branches import Decision
from integration.policy.failure import Failure, FailureClass
from integration.store.open_transaction import OpenTransaction
from integration.store.sessions import Session

_VERBS: Final = {Decision.COMMIT: "COMMIT PREPARED", Decision.ROLLBACK: "ROLLBACK PREPARED"}
_NO_ROOM: Final = Failure(
    FailureClass.OUTAGE,
    "PREPARE_REFUSED",
    "PostgreSQL prepares no more transactions. Set its max_prepared_transactions to twice the "
    "number of runs at least and start it again, or switch the queue's two-phase commit off.",
)
FAILURES: Final = {
    "53200": _NO_ROOM,  # as many as there may be stand open
    "55000": _NO_ROOM,  # none are allowed
    "0A000": Failure(
        FailureClass.PERMANENT,
        "NOT_PREPARABLE",
        "The handler did what no prepared transaction can hold: it used a temporary table, LISTEN "
        "or NOTIFY, or a cursor WITH HOLD. Change it, or switch the queue's two-phase commit off.",
    ),
}


def prepare(open_transaction: OpenTransaction, name: str) -> None:
    """Write it to disk under that name: it outlives its session, and the server.

    Raises NotPublishedError where PostgreSQL does not, LostError, DatabaseError.
    """
    try:
        result = open_transaction.frame(
            _statement("PREPARE TRANSACTION", name, open_transaction.raw)
        )
    except DatabaseError as e:
        failure = FAILURES.get(getattr(e.__cause__, "sqlstate", None) or "")
        if failure is None:
            raise
        raise NotPublishedError(failure) from e
    if result.command_status != b"PREPARE TRANSACTION":
        # A transaction that was spoilt is rolled back, and no error is raised.
        raise LostError("The transaction could not be prepared.")


def finish(open_transaction: OpenTransaction, name: str, decision: Decision) -> None:
    """Commit what its session has prepared, or roll it back. Raises DatabaseError."""
    open_transaction.frame(_statement(_VERBS[decision], name, open_transaction.raw))


def finish_left(session: Session, name: str, decision: Decision) -> None:
    """Commit what was left prepared, or roll it back; what is gone already is done.

    Raises psycopg.Error.
    """
    with suppress(UndefinedObject):
        session.execute(_statement(_VERBS[decision], name, session))


def _statement(verb: str, name: str, session: psycopg.Connection[Any]) -> bytes:
    return sql.SQL("{} {}").format(sql.SQL(verb), sql.Literal(name)).as_bytes(session)
