"""Delivery into another PostgreSQL database: a row for each message, written once by its id."""

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from queue import Empty, LifoQueue
from typing import Any, Final

import psycopg
from psycopg.pq import TransactionStatus

from integration.certificates import authorities_file
from integration.endpoint_types.addresses import permitted
from integration.endpoint_types.database.answers import busy_or_refused, is_of_message, unreachable
from integration.endpoint_types.database.properties import DatabaseProperties
from integration.endpoint_types.database.rows import Rows
from integration.endpoints.codes import EndpointCode
from integration.endpoints.port import (
    CLOSED,
    Accepted,
    Answer,
    Deliverer,
    NotDeliveredError,
    OutboundMessage,
    Refused,
    Unknown,
    Unreachable,
)
from integration.endpoints.templates import FieldMissingError, Fields
from integration.store.sessions import raw_connection

APPLICATION: Final = "sluice"
# The first statement of each transaction: it shows whether an idle connection still lives, and
# no constraint waits for the commit, where nobody could tell which message it was.
BEGIN: Final = "SET CONSTRAINTS ALL IMMEDIATE"
# No two servers start in the same microsecond; a database keeps its number under each name.
IDENTITY: Final = """
    SELECT pg_postmaster_start_time(), oid FROM pg_database WHERE datname = current_database()"""
OWN: Final = Unreachable(
    code=EndpointCode.DATABASE_OWN,
    text="This is the database in which Sluice itself keeps messages and rights; no endpoint "
    "writes there. Choose the partner's database.",
)
Connection = psycopg.Connection[tuple[Any, ...]]


class DatabaseEndpoint:
    """One opened endpoint in a database; see integration.endpoints.port.Deliverer."""

    def __init__(
        self,
        properties: DatabaseProperties,
        authorities: Path | None,
        own: Callable[[], Connection],
    ) -> None:
        """Take what was stored; `own` connects to Sluice's own database, which is no target."""
        self.at_once = properties.at_once
        self.within_seconds: float | None = None
        self._properties = properties
        self._authorities = authorities
        self._own = own
        self._rows = Rows(properties)
        # Connections that nobody uses at the moment, the last one on top.
        self._idle: LifoQueue[Connection] = LifoQueue()
        self._is_closed = False

    def deliver(self, messages: Sequence[OutboundMessage]) -> Sequence[Answer]:
        rows: dict[int, list[Any]] = {}
        answers: dict[int, Answer] = {}
        for at, message in enumerate(messages):
            try:
                rows[at] = self._read(message)
            except (FieldMissingError, NotDeliveredError) as problem:
                answers[at] = problem.answer
        if rows:
            answers.update(self._stored(messages, rows))
        return [answers[at] for at in range(len(messages))]

    def connect(self) -> Answer:
        """Check that the target can be written: its table, columns and rights; nothing is kept."""
        if self._is_closed:
            return CLOSED
        try:
            with self._connection() as connection:
                self._rows.examine(connection)
                connection.rollback()
        except NotDeliveredError as problem:
            return problem.answer
        except psycopg.Error as problem:
            return unreachable(problem, self._properties)
        return Accepted(text=f"The table {self._rows.target} can be written.")

    def close(self) -> None:
        self._is_closed = True
        with contextlib.suppress(Empty):
            while True:
                self._idle.get_nowait().close()
        if self._authorities is not None:
            self._authorities.unlink(missing_ok=True)

    def _read(self, message: OutboundMessage) -> list[Any]:
        """Raises FieldMissingError, NotDeliveredError."""
        fields = Fields(message)
        if fields.flaw is not None and self._rows.needs_body:
            text = fields.flaw.message
            raise NotDeliveredError(Refused(code=EndpointCode.PAYLOAD_UNREADABLE, text=text))
        return self._rows.values(fields)

    def _stored(
        self, messages: Sequence[OutboundMessage], rows: dict[int, list[Any]]
    ) -> dict[int, Answer]:
        """All of them in one transaction; what the target refuses is left out."""
        if self._is_closed:
            return dict.fromkeys(rows, CLOSED)
        answers: dict[int, Answer] = {}
        is_committing = False
        try:
            with self._connection() as connection:
                for at, values in rows.items():
                    answers[at] = self._row(connection, messages[at].message_id, values)
                is_committing = True
                connection.commit()
        except NotDeliveredError as problem:
            return dict.fromkeys(rows, problem.answer)
        except psycopg.Error as problem:
            if is_committing and _is_lost(problem):
                return {
                    at: self._looked_up(messages[at].message_id)
                    if isinstance(answer, Accepted)
                    else answer
                    for at, answer in answers.items()
                }
            return dict.fromkeys(rows, unreachable(problem, self._properties))
        return answers

    def _row(self, connection: Connection, message_id: str, values: list[Any]) -> Answer:
        """One message under a savepoint. Raises psycopg.Error for what concerns all messages."""
        try:
            with connection.transaction():
                is_new = self._rows.write(connection, message_id, values)
        except psycopg.Error as problem:
            if is_of_message(problem):
                return busy_or_refused(problem)
            raise
        text = "It is stored." if is_new else "It was stored before, under the same message id."
        return Accepted(text=text)

    def _looked_up(self, message_id: str) -> Answer:
        """Look up what became of a commit whose answer was lost.

        Writing the id again waits for a transaction that has not ended yet, and so cannot be
        told "not there" by one that commits a moment later; this one is rolled back.
        """
        try:
            with self._connection(is_new=True) as connection:
                is_there = self._rows.is_there(connection, message_id)
                connection.rollback()
        except (psycopg.Error, NotDeliveredError):
            text = "The answer to the commit was lost, and the target cannot be asked."
            return Unknown(code=EndpointCode.COMMIT_UNKNOWN, text=text)
        if is_there:
            return Accepted(text="The answer to the commit was lost; the target has the message.")
        text = "The connection ended at the commit; the target does not have the message."
        return Unreachable(code=EndpointCode.DATABASE_UNREACHABLE, text=text)

    @contextlib.contextmanager
    def _connection(self, *, is_new: bool = False) -> Iterator[Connection]:
        """A connection of this call's own; it goes back when it is still good.

        Raises psycopg.Error, NotDeliveredError.
        """
        connection = self._connected() if is_new else self._taken()
        try:
            yield connection
        finally:
            is_good = not connection.closed and (
                connection.info.transaction_status == TransactionStatus.IDLE
            )
            if is_good and not self._is_closed:
                self._idle.put(connection)
            else:
                connection.close()

    def _taken(self) -> Connection:
        """An idle connection that still answers, or a new one."""
        with contextlib.suppress(Empty):
            while True:
                connection = self._idle.get_nowait()
                try:
                    connection.execute(BEGIN)
                    return connection
                except psycopg.Error:
                    connection.close()
        connection = self._connected()
        connection.execute(BEGIN)
        return connection

    def _connected(self) -> Connection:
        properties = self._properties
        started = time.monotonic()
        seconds = properties.connect_seconds
        addresses = permitted(
            properties.host, properties.port, seconds, private=properties.private_network
        )
        left = max(2, round(seconds - (time.monotonic() - started)))
        return self._not_our_own(self._connected_to(addresses, left))

    def _not_our_own(self, connection: Connection) -> Connection:
        """The connection, unless it leads to Sluice's own database, by whatever name and address.

        The address alone does not tell: a server has many, and a proxy has others. Raises
        psycopg.Error, NotDeliveredError.
        """
        try:
            with self._own() as own:
                is_own = _identity(own) == _identity(connection)
            connection.rollback()
        except psycopg.Error:
            connection.close()
            raise
        if is_own:
            connection.close()
            raise NotDeliveredError(OWN)
        return connection

    def _connected_to(self, addresses: Sequence[str], seconds: int) -> Connection:
        properties = self._properties
        milliseconds = round(properties.statement_seconds * 1_000)
        return psycopg.connect(
            host=",".join([properties.host] * len(addresses)),
            hostaddr=",".join(addresses),
            port=properties.port,
            dbname=properties.database,
            user=properties.username,
            # Empty is no password: never the one that this machine has for its own database.
            password=properties.password,
            passfile=os.devnull,
            sslmode=properties.sslmode,
            sslrootcert=None if self._authorities is None else str(self._authorities),
            connect_timeout=seconds,
            # A network that swallows everything is noticed by the system, not by a statement.
            tcp_user_timeout=milliseconds,
            keepalives_idle=5,
            keepalives_interval=2,
            keepalives_count=3,
            application_name=APPLICATION,
            options=f"-c statement_timeout={milliseconds} -c lock_timeout={milliseconds} "
            "-c idle_in_transaction_session_timeout=60000 -c timezone=UTC",
        )


def _identity(connection: Connection) -> tuple[Any, ...] | None:
    """Identify the database and the running server: no right is needed to ask."""
    return connection.execute(IDENTITY).fetchone()


def _is_lost(problem: psycopg.Error) -> bool:
    """Return whether the connection ended instead of answering."""
    return (problem.sqlstate or "08")[:2] in {"08", "57"}


def opened(properties: DatabaseProperties) -> Deliverer:
    """The endpoint type's opener. Raises ValueError for a certificate that cannot be read."""
    text = properties.ca_certificate
    own = partial(raw_connection, "sluice endpoint")
    return DatabaseEndpoint(properties, authorities_file(text) if text else None, own)
