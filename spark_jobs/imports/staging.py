"""What became of each row of a run, kept in tables of the run's own until all of it is applied.

A range is staged in one transaction that also says so: whoever comes again, after a crash or
because a task was tried twice, finds it done and does nothing.
"""

import hashlib
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Final, LiteralString, NamedTuple
from uuid import UUID

import psycopg
from psycopg import sql

from integration.delivery.policy.failure import Failure, FailureClass
from integration.documents.refusals import plain_text
from spark_jobs.imports.mapping import Document, Mapper, Rejected
from spark_jobs.imports.parameters import ImportParameters
from spark_jobs.imports.planning import Range
from spark_jobs.imports.reading import Row, rows

NOTHING: Final = "\\N"
# Of a row's own text so much is shown beside its failure; its payload has all that was read.
SHOWN_CHARACTERS: Final = 10_000
ROWS_AT_ONCE: Final = 1_000
# A row's place in its run: the range's number, and the row's within it.
PLACES_BITS: Final = 32
_TABLES: Final = """
CREATE UNLOGGED TABLE IF NOT EXISTS {ranges} (
  number int PRIMARY KEY, read bigint NOT NULL, good bigint NOT NULL, bad bigint NOT NULL);
CREATE UNLOGGED TABLE IF NOT EXISTS {documents} (
  place bigint PRIMARY KEY, key text NOT NULL, version numeric, document jsonb NOT NULL);
CREATE UNLOGGED TABLE IF NOT EXISTS {rejects} (
  place bigint PRIMARY KEY, file text NOT NULL, line bigint NOT NULL, code text NOT NULL,
  text text NOT NULL, fingerprint text NOT NULL, payload bytea NOT NULL, raw text NOT NULL);
"""
_LOCK: Final = "SELECT pg_advisory_xact_lock(%s)"
_KNOWN: Final = "SELECT read, good, bad FROM {ranges} WHERE number = %s"
_SAY: Final = "INSERT INTO {ranges} (number, read, good, bad) VALUES (%s, %s, %s, %s)"
_COPY_DOCUMENTS: Final = "COPY {documents} (place, key, version, document) FROM STDIN"
_COPY_REJECTS: Final = (
    "COPY {rejects} (place, file, line, code, text, fingerprint, payload, raw) FROM STDIN"
)


class Staged(NamedTuple):
    """What a range came to."""

    number: int
    read: int
    good: int
    bad: int


class Stage:
    """The tables of one run."""

    def __init__(self, run: str) -> None:
        name = f"bulk_{UUID(run).hex}"
        self._names = {
            part: sql.Identifier(f"{name}_{part}") for part in ("ranges", "documents", "rejects")
        }

    def sql(self, text: LiteralString, **more: sql.Composable) -> sql.Composed:
        return sql.SQL(text).format(**self._names, **more)

    def make(self, session: psycopg.Connection[Any]) -> None:
        session.execute(self.sql(_TABLES))

    def drop(self, session: psycopg.Connection[Any]) -> None:
        """All of it in one statement: what is half gone would be staged twice."""
        session.execute(self.sql("DROP TABLE IF EXISTS {ranges}, {documents}, {rejects}"))

    def staged(self, session: psycopg.Connection[Any]) -> list[Staged]:
        found = session.execute(
            self.sql("SELECT number, read, good, bad FROM {ranges} ORDER BY number")
        )
        return [Staged(*values) for values in found.fetchall()]


def stage(
    database: str, run: str, parameters: ImportParameters, names: Sequence[str], part: Range
) -> Staged:
    """Read a range, map its rows, and keep what became of them: once, however often it is asked."""
    tables = Stage(run)
    with psycopg.connect(database, application_name="sluice import") as session:
        session.execute(_LOCK, [lock_number(run, part.number)])
        known = session.execute(tables.sql(_KNOWN), [part.number]).fetchone()
        if known is not None:
            return Staged(part.number, *known)
        found = rows(part, parameters, len(names))
        staged = _copied(session, tables, part, found, Mapper(parameters, names))
        session.execute(tables.sql(_SAY), [*staged])
        return staged


def _copied(
    session: psycopg.Connection[Any],
    tables: Stage,
    part: Range,
    found: Iterator[Row],
    mapper: Mapper,
) -> Staged:
    read = bad = 0
    rejects: list[str] = []
    with session.cursor() as cursor, cursor.copy(tables.sql(_COPY_DOCUMENTS)) as copy:
        for lot in _lots(found):
            lines = []
            for row in lot:
                place = part.number << PLACES_BITS | read
                read += 1
                became = mapper.map(row)
                if isinstance(became, Document):
                    lines.append(_document_line(place, became))
                else:
                    bad += 1
                    rejects.append(_reject_line(place, part.file, row, became))
            copy.write("".join(lines))
    with session.cursor() as cursor, cursor.copy(tables.sql(_COPY_REJECTS)) as copy:
        copy.write("".join(rejects))
    return Staged(part.number, read, read - bad, bad)


def _lots(found: Iterator[Row]) -> Iterator[list[Row]]:
    while lot := list(islice(found, ROWS_AT_ONCE)):
        yield lot


def _document_line(place: int, document: Document) -> str:
    text, key, version = document
    told = NOTHING if version is None else version
    return f"{place}\t{_escaped(key)}\t{told}\t{_escaped(text)}\n"


def _reject_line(place: int, file: str, row: Row, rejected: Rejected) -> str:
    code, text = rejected.flaw[0], plain_text(rejected.flaw[1])
    fingerprint = Failure(FailureClass.PERMANENT, code, text).fingerprint
    told = "\t".join(map(_escaped, (file, str(row.line), code, text, fingerprint)))
    shown = _escaped(plain_text(row.text[:SHOWN_CHARACTERS]))
    return f"{place}\t{told}\t\\\\x{rejected.payload.hex()}\t{shown}\n"


def _escaped(text: str) -> str:
    """As COPY's text format reads it."""
    if "\\" in text:
        text = text.replace("\\", "\\\\")
    if not text.isprintable():
        text = text.replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")
    return text


def lock_number(run: str, number: int) -> int:
    digest = hashlib.blake2b(f"{run}/{number}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, signed=True)
