"""Stands between a checked handler and its database, so that everything it does can be undone."""

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

from django.db import DatabaseError
from psycopg.pq import TransactionStatus
from psycopg.sql import Composable

from integration.errors import IntegrationError
from integration.runs.statements import ends_transaction
from integration.store.sessions import django_connection

# A person waits for the answer, and what the handler locks is locked for all.
LIMIT: Final = timedelta(seconds=5)
OWN_NUMBER: Final = "SELECT pg_current_xact_id()::text"
FATE: Final = "SELECT pg_xact_status(%s::text::xid8)"


class OutOfTimeError(IntegrationError):
    """The check's time is over; no further statement is sent."""

    code = "CHECK_TIMED_OUT"

    def __init__(self) -> None:
        super().__init__(f"The check is stopped after {LIMIT.seconds} seconds.")


class EndsTransactionError(IntegrationError):
    """The handler sent a command that belongs to whoever began the transaction."""

    code = "HANDLER_ENDS_TRANSACTION"

    def __init__(self, command: str) -> None:
        super().__init__(
            f"The handler sent “{command}”. It was not executed, and everything before it is "
            "undone. The engine does not look at statements: there it would part the message's "
            "effects from its position, and a crash could lose or repeat them.",
            next_step="Do not release the message; have the handler's author take the command out "
            "(transaction.atomic() makes a savepoint).",
        )


class NotUndoneError(IntegrationError):
    """The handler ended the check's transaction past the guard; what it left is not undone."""

    code = "CHECK_NOT_UNDONE"

    def __init__(self, what: str) -> None:
        super().__init__(
            f"The handler ended its transaction itself, past Django: {what}",
            next_step="Compare its tables with the message before you release it, and have the "
            "handler's author take the command out.",
        )


class Guard:
    """Sends no statement that comes too late or that ends the transaction.

    The handler may make of that what it likes: `problem` tells, once the check's transaction is
    rolled back, and also what was done past Django, where nobody looks at statements.
    """

    def __init__(self, limit: timedelta) -> None:
        self._ends = time.monotonic() + limit.total_seconds()
        self._refused: EndsTransactionError | None = None
        self._number = ""
        self._is_same = True

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self._ends

    @property
    def is_sound(self) -> bool:
        """Return whether the transaction is still the one it was, and the handler respected it."""
        return self._is_same and self._refused is None

    def __call__(self, execute: Callable[..., Any], sql: object, *more: Any) -> Any:
        if self.is_over:
            raise OutOfTimeError
        command = ends_transaction(_text(sql))
        if command:
            self._refused = EndsTransactionError(command)
            raise self._refused
        return execute(sql, *more)

    def enter(self) -> None:
        """Note which transaction this is, before the handler is called."""
        with django_connection().cursor() as cursor:
            cursor.execute(OWN_NUMBER)
            (self._number,) = cursor.fetchone()

    def leave(self) -> None:
        """Look whether it is still the same one. A broken transaction tells no number."""
        raw: Any = django_connection().connection
        status = raw.pgconn.transaction_status
        if status == TransactionStatus.IDLE:
            self._is_same = False
        elif status == TransactionStatus.INTRANS:
            # Django lets no statement through once a handler has swallowed an error.
            (number,) = raw.execute(OWN_NUMBER).fetchone()
            self._is_same = number == self._number

    def problem(self) -> IntegrationError | None:
        """Return why this was no check, if it was none; asked when all that can be is undone."""
        fate = self._fate()
        if fate == "committed":
            return NotUndoneError("what it had written by then is stored.")
        if fate == "in progress" and not django_connection().in_atomic_block:
            return NotUndoneError(
                "it is prepared, and holds its rows until somebody commits it or rolls it back "
                "(pg_prepared_xacts lists it)."
            )
        if not self._is_same:
            return NotUndoneError("what it wrote after that may be stored.")
        return self._refused

    def _fate(self) -> str:
        """Committed, aborted or in progress; "" when the server cannot say so."""
        if not self._number:
            return ""
        try:
            with django_connection().cursor() as cursor:
                cursor.execute(FATE, [self._number])
                (fate,) = cursor.fetchone()
        except DatabaseError:
            return ""
        return str(fate or "")


def _text(sql: object) -> str:
    if isinstance(sql, Composable):
        return sql.as_string(None)
    return sql.decode(errors="replace") if isinstance(sql, bytes) else str(sql)
