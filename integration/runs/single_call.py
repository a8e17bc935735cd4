"""One handler call outside a run: in the caller's transaction, bounded, read as an outcome."""

from datetime import timedelta
from typing import Any, Final

from django.db import DatabaseError, connections
from psycopg.pq import TransactionStatus

from integration.delivery.calling import SWALLOWED, call_batch, call_one
from integration.delivery.outcome import APPLIED, Failed, Outcome
from integration.delivery.unit import Unit
from integration.errors import IntegrationError
from integration.handlers.failures import classify
from integration.store.sessions import alias, django_connection

LOCK_MS: Final = 2_000


def bound(limit: timedelta) -> None:
    """Limit every statement of the current transaction, its waiting for locks, and its silence."""
    limit_ms = int(limit.total_seconds() * 1000)
    with django_connection().cursor() as cursor:
        cursor.execute(f"SET LOCAL statement_timeout = {limit_ms}")
        cursor.execute(f"SET LOCAL lock_timeout = {min(LOCK_MS, limit_ms)}")
        # A handler that computes for long must not keep its locks meanwhile.
        cursor.execute(f"SET LOCAL idle_in_transaction_session_timeout = {2 * limit_ms}")


def outcome_of(unit: Unit) -> Outcome:
    """Call the handler of one message in the current transaction; deferred constraints checked.

    Never raises what the handler raises. After a Failed the transaction has to be undone.
    """
    taker = unit.taker
    if taker is None or unit.message is None:
        return unit.known or APPLIED
    outcome: Outcome
    if taker.batch:
        ended = call_batch(taker.call, [unit])
        outcome = Failed(ended[1]) if isinstance(ended, tuple) else ended[0]
    else:
        outcome = call_one(unit)
    if isinstance(outcome, Failed):
        return outcome
    if _is_broken():
        return Failed(SWALLOWED)
    try:
        with django_connection().cursor() as cursor:
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
    except (DatabaseError, IntegrationError) as e:
        # What stands between the handler and the database may refuse it, too.
        return Failed(classify(e))
    return outcome


def _is_broken() -> bool:
    connection = connections[alias()]
    raw: Any = connection.connection
    in_transaction = raw.pgconn.transaction_status == TransactionStatus.INTRANS
    return bool(connection.needs_rollback or not in_transaction)
