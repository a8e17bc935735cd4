"""Reads rows out of the database: all of one moment, or a short look at some of them."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import psycopg
from psycopg import sql
from psycopg.errors import QueryCanceled, UndefinedTable

from spark_jobs.tables.columns import Column

NAME: Final = "sluice bulk"
# A look must not be what slows the database down.
LONGEST_SECONDS: Final = 10.0
_LONGEST: Final = "SELECT set_config('statement_timeout', %s, true)"
_BEGIN: Final = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY"
_SHARE: Final = "SET TRANSACTION SNAPSHOT {}"


class Moment(NamedTuple):
    """One moment of the database, shared by all who name its snapshot while `session` is open."""

    session: psycopg.Connection[Any]
    snapshot: str


@contextmanager
def moment(database: str) -> Iterator[Moment]:
    """Hold one moment of the database, as long as its rows are read."""
    with psycopg.connect(database, application_name=NAME) as session:
        session.execute(_BEGIN)
        row = session.execute("SELECT pg_export_snapshot()").fetchone()
        yield Moment(session, str(row[0]) if row else "")
        session.rollback()


def rows(
    database: str,
    snapshot: str,
    statement: str,
    values: Mapping[str, Any],
    columns: Sequence[Column],
) -> Iterator[tuple[Any, ...]]:
    """The rows of a statement, one after the other: no more than one of them is in memory."""
    with psycopg.connect(database, application_name=NAME) as session:
        session.execute(_BEGIN)
        session.execute(sql.SQL(_SHARE).format(snapshot))
        copying = f"COPY ({statement}) TO STDOUT (FORMAT BINARY)".encode()
        with session.cursor() as cursor, cursor.copy(copying, values) as copy:
            copy.set_types([column.database_type for column in columns])
            yield from copy.rows()
        session.rollback()


@contextmanager
def look(database: str) -> Iterator[psycopg.Connection[Any]]:
    """A session that writes nothing, and in which no statement takes long."""
    with psycopg.connect(database) as session:
        session.execute("SET TRANSACTION READ ONLY")
        session.execute(_LONGEST, [f"{round(LONGEST_SECONDS * 1_000)}ms"])
        yield session
        session.rollback()


def seen(
    session: psycopg.Connection[Any], statement: str, values: Mapping[str, Any]
) -> list[tuple[Any, ...]] | None:
    """The rows of a statement; None where it would take too long."""
    try:
        with session.transaction():
            return session.execute(statement.encode(), values).fetchall()
    except QueryCanceled:
        return None


def hold(session: psycopg.Connection[Any], table: str) -> bool:
    """Keep a table from being removed while it is read; False where it is gone."""
    name = sql.Identifier(table)
    try:
        with session.transaction():
            session.execute(sql.SQL("LOCK TABLE {} IN ACCESS SHARE MODE").format(name))
    except UndefinedTable:
        return False
    return True
