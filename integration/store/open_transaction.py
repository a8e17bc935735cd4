"""An open transaction of one database, framed by savepoints."""

from typing import Any, Final

from django.db import transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus, TransactionStatus
from psycopg.pq.abc import PGresult

# What frames a batch goes to libpq in one message each. psycopg would send them one by one, and
# would forget every prepared statement at each ROLLBACK, whatever it rolls back to.
BEGIN: Final = b"BEGIN ISOLATION LEVEL READ COMMITTED"
SAVE: Final = b"SAVEPOINT sluice"
# Deferred constraints are checked where the message that broke them is still known, and are
# deferred again for the next one.
CHECK_AND_DEFER: Final = b"SET CONSTRAINTS ALL IMMEDIATE; SET CONSTRAINTS ALL DEFERRED"
RENEW: Final = b"RELEASE SAVEPOINT sluice; SAVEPOINT sluice"
KEEP: Final = CHECK_AND_DEFER + b"; " + RENEW
UNDO: Final = b"ROLLBACK TO SAVEPOINT sluice"
CHECK: Final = b"SET CONSTRAINTS ALL IMMEDIATE"
IN_TRANSACTION: Final = int(TransactionStatus.INTRANS)
DONE: Final = (ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK)


class OpenTransaction:
    """The transaction of a Django connection, inside its `atomic`. Raises Django's errors."""

    def __init__(self, connection: BaseDatabaseWrapper) -> None:
        self.connection = connection
        self.raw: Any = connection.connection
        self._session = self.raw.pgconn
        self._hooks = 0

    def frame(self, sql: bytes) -> PGresult:
        """Execute statements in one message to the server."""
        with self.connection.wrap_database_errors:
            result: PGresult = self._session.exec_(sql)
            if result.status not in DONE:
                raise error_from_result(result)
        return result

    def savepoint(self) -> None:
        self.frame(SAVE)
        self._hooks = len(self.connection.run_on_commit)

    def keep(self) -> None:
        self.frame(KEEP)
        self._hooks = len(self.connection.run_on_commit)

    def try_keep(self) -> None:
        """Check what `keep` would; after it only a lost session keeps `renew` from being done."""
        self.frame(CHECK_AND_DEFER)

    def renew(self) -> None:
        self.frame(RENEW)
        self._hooks = len(self.connection.run_on_commit)

    def undo(self) -> None:
        self.frame(UNDO)
        self.connection.needs_rollback = False
        del self.connection.run_on_commit[self._hooks :]

    def check(self) -> None:
        self.frame(CHECK)

    def abandon(self) -> None:
        transaction.set_rollback(True, using=self.connection.alias)

    def is_broken(self) -> bool:
        return self._session.transaction_status != IN_TRANSACTION or self.connection.needs_rollback

    def is_lost(self) -> bool:
        return self.raw is not self.connection.connection or bool(self.raw.closed)
