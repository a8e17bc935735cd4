"""What became of each row of a run, kept in tables of the run's own until all of it is applied.

A range is staged in one transaction that also says so: whoever comes again, after a crash or
because a task was tried twice, finds it done and does nothing.
"""

import hashlib
from collections.abc import Sequence
from typing import Any, Final, LiteralString, NamedTuple
from uuid import UUID

import psycopg
from psycopg import sql

from integration.documents.refusals import plain_text
from integration.policy.failure import Failure, FailureClass
from spark_jobs.imports.envelopes import Envelopes
from spark_jobs.imports.mapping import Document, Mapper, Rejected
from spark_jobs.imports.parameters import ImportParameters
from spark_jobs.imports.rows import Range, Row
from spark_jobs.imports.sources import rows_of

NOTHING: Final = "\\N"
# Of a row's own text so much is shown beside its failure; its payload has all that was read.
SHOWN_CHARACTERS: Final = 10_000
# So much is held before it is written; a row is at most about as large.
PORTION_CHARACTERS: Final = 2 * 2**20
# A row's place in its run: the range's number, and the row's within it.
PLACES_BITS: Final = 32
# A queue gets the very text, so nothing may rearrange it; the store will take it apart anyway.
_TABLES: Final = """
CREATE UNLOGGED TABLE IF NOT EXISTS {ranges} (
  number int PRIMARY KEY, file text NOT NULL, read bigint NOT NULL, good bigint NOT NULL,
  bad bigint NOT NULL, sent bigint);
CREATE UNLOGGED TABLE IF NOT EXISTS {documents} (
  place bigint NOT NULL, line bigint NOT NULL, key text, version numeric, document {kind},
  xml text NOT NULL DEFAULT '');
CREATE UNLOGGED TABLE IF NOT EXISTS {rejects} (
  place bigint PRIMARY KEY, file text NOT NULL, line bigint NOT NULL, code text NOT NULL,
  text text NOT NULL, fingerprint text NOT NULL, payload bytea NOT NULL, raw text NOT NULL);
"""
_LOCK: Final = "SELECT pg_advisory_xact_lock(%s)"
_KNOWN: Final = "SELECT read, good, bad FROM {ranges} WHERE number = %s"
_SAY: Final = "INSERT INTO {ranges} (number, file, read, good, bad) VALUES (%s, %s, %s, %s, %s)"
_COPY_DOCUMENTS: Final = "COPY {documents} (place, line, key, version, {member}) FROM STDIN"
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
        self._name = f"bulk_{UUID(run).hex}"
        self._names = {part: self.named(part) for part in ("ranges", "documents", "rejects")}

    def named(self, part: str) -> sql.Identifier:
        """The name of a table or an index of this run."""
        return sql.Identifier(f"{self._name}_{part}")

    def sql(self, text: LiteralString, **more: sql.Composable) -> sql.Composed:
        return sql.SQL(text).format(**self._names, **more)

    def make(self, session: psycopg.Connection[Any], parameters: ImportParameters) -> None:
        kind = sql.SQL("jsonb" if parameters.target is None else "text")
        session.execute(self.sql(_TABLES, kind=kind))

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
        portions = _Portions(session, tables, parameters)
        staged = _written(portions, Mapper(parameters, names), Envelopes(run, parameters), part)
        number, *counts = staged
        session.execute(tables.sql(_SAY), [number, part.file, *counts])
        return staged


def _written(portions: "_Portions", mapper: Mapper, envelopes: Envelopes, part: Range) -> Staged:
    read = bad = 0
    for row in rows_of(part, mapper.parameters, mapper.names):
        place = part.number << PLACES_BITS | read
        read += 1
        became = envelopes.fitting(mapper.map(row), place)
        if isinstance(became, Document):
            portions.good(_document_line(place, row.line, became))
        else:
            bad += 1
            portions.bad(_reject_line(place, part.file, row, became))
    portions.write()
    return Staged(part.number, read, read - bad, bad)


class _Portions:
    """Lines on their way into the stage: little is held, however many there are."""

    def __init__(
        self, session: psycopg.Connection[Any], tables: Stage, parameters: ImportParameters
    ) -> None:
        is_xml = parameters.are_xml and parameters.target is None
        member = sql.Identifier("xml" if is_xml else "document")
        self._session = session
        self._into = tables.sql(_COPY_DOCUMENTS, member=member), tables.sql(_COPY_REJECTS)
        self._lines: tuple[list[str], list[str]] = ([], [])
        self._held = 0

    def good(self, line: str) -> None:
        self._hold(self._lines[0], line)

    def bad(self, line: str) -> None:
        self._hold(self._lines[1], line)

    def _hold(self, lines: list[str], line: str) -> None:
        lines.append(line)
        self._held += len(line)
        if self._held > PORTION_CHARACTERS:
            self.write()

    def write(self) -> None:
        for into, lines in zip(self._into, self._lines, strict=True):
            if lines:
                with self._session.cursor() as cursor, cursor.copy(into) as copy:
                    copy.write("".join(lines))
                lines.clear()
        self._held = 0


def _document_line(place: int, line: int, document: Document) -> str:
    text, key, version = document
    told = NOTHING if version is None else version
    name = NOTHING if key is None else _escaped(key)
    return f"{place}\t{line}\t{name}\t{told}\t{_escaped(text)}\n"


def _reject_line(place: int, file: str, row: Row, rejected: Rejected) -> str:
    code, text = rejected.flaw[0], plain_text(rejected.flaw[1])
    fingerprint = Failure(FailureClass.PERMANENT, code, text).fingerprint
    told = "\t".join(map(_escaped, (file, str(row.line), code, text, fingerprint)))
    shown = _escaped(plain_text(rejected.shown[:SHOWN_CHARACTERS]))
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
