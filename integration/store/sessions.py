"""The engine's database sessions: the raw one that holds locks, Django's; the database's clock."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Final, NamedTuple

import psycopg
from django.conf import settings
from django.db import DatabaseError, InterfaceError, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import DateTimeField, Func
from psycopg import errors as pg

from integration.delivery.ports import LostError
from integration.store.reads import standby
from sluice.database import SERVER_OPTIONS, place_of

Session = psycopg.Connection[tuple[Any, ...]]
# The classes of what the server says when it ends a session, and not a statement alone.
_ENDED: Final = ("08", "57P")


def alias() -> str:
    """The one Django alias whose transactions the engine owns; for some pages a standby of it."""
    return standby() or str(settings.SLUICE_DATABASE)


def django_connection() -> BaseDatabaseWrapper:
    connection: BaseDatabaseWrapper = connections[alias()]
    return connection


@contextmanager
def guarded() -> Iterator[None]:
    """Statements of a run between batches: a broken session ends it. Raises LostError."""
    try:
        yield
    except (DatabaseError, InterfaceError, psycopg.Error) as e:
        raise LostError(str(e).strip()) from e


def may_have_committed(failure: Exception) -> bool:
    """Return whether a commit, or a statement that is its own, may have happened nevertheless.

    Its answer is lost where the session broke. What the server refuses is undone, and without a
    session nothing was sent.
    """
    cause = failure.__cause__
    if not isinstance(cause, psycopg.OperationalError):
        return False
    if isinstance(cause, pg.ConnectionTimeout) or cause.pgconn is not None:
        return False
    return cause.sqlstate is None or cause.sqlstate.startswith(_ENDED)


def fetch_all(
    sql: str, parameters: Sequence[Any] | Mapping[str, Any] | None = None
) -> list[tuple[Any, ...]]:
    """Every row of one statement on Django's session. Raises DatabaseError."""
    with django_connection().cursor() as cursor:
        cursor.execute(sql, parameters)
        return list(cursor.fetchall())


def execute(sql: str, parameters: Sequence[Any] | Mapping[str, Any] | None = None) -> int:
    """Execute a statement on Django's session; returns rows changed. Raises DatabaseError."""
    with django_connection().cursor() as cursor:
        cursor.execute(sql, parameters)
        return int(cursor.rowcount)


def database_now() -> Func:
    """The one clock of times that are stored and compared: the database's.

    The time when the row is written, not when the transaction began.
    """
    return Func(function="clock_timestamp", output_field=DateTimeField())


def database_time() -> datetime:
    """Ask for the time now, where Python has to compare with it. Raises DatabaseError."""
    now: datetime = fetch_all("SELECT clock_timestamp()")[0][0]
    return now


def next_arrival() -> int:
    """The number of a batch of its own, drawn as the engine draws it. Raises DatabaseError."""
    [(number,)] = fetch_all("SELECT nextval('integration_arrival')")
    return int(number)


def raw_connection(application_name: str, of: str = "") -> Session:
    """An autocommit session of its own; Django's may be replaced silently, this one never is.

    Must reach the server directly: a transaction pooler would hand each statement to another
    session, and session locks would protect nothing. `of` is another alias than the engine's.
    Raises psycopg.OperationalError, ConnectionDoesNotExist.
    """
    return psycopg.connect(
        **place_of(connections[of or alias()].settings_dict),
        autocommit=True,
        application_name=application_name[:63],
        connect_timeout=5,
        keepalives_idle=5,
        keepalives_interval=2,
        keepalives_count=3,
        options=SERVER_OPTIONS,
    )


class Backend(NamedTuple):
    """A server process: its pid alone could be another's by now."""

    pid: int
    started: Any


def backend_of(cursor: Any) -> Backend:
    cursor.execute("SELECT pid, backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid()")
    pid, started = cursor.fetchone()
    return Backend(pid, started)


# pids and start times in one statement, so that a recycled pid is never ended.
TERMINATE = (
    "SELECT pg_terminate_backend(a.pid) FROM pg_stat_activity a "
    "JOIN unnest(%s::int[], %s::timestamptz[]) v (pid, started) "
    "ON a.pid = v.pid AND a.backend_start = v.started"
)
