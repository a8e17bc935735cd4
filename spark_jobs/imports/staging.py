"""The fate of each row of a run, kept until all of it is applied or sent."""

from collections.abc import Sequence
from typing import Final, NamedTuple
from uuid import UUID

import psycopg
from psycopg import sql

from integration.documents.refusals import plain_text
from integration.policy.failure import Failure, FailureClass
from spark_jobs import staging
from spark_jobs.imports.mapping import Document, Mapper, Rejected
from spark_jobs.imports.parameters import ImportParameters
from spark_jobs.imports.planning import Facts, same_file
from spark_jobs.imports.rows import Flaw, Range, Row
from spark_jobs.imports.sources import rows_of
from spark_jobs.staging import Session, places
from spark_jobs.storage import DISK, Storage
from spark_jobs.topics.target import Target

NOTHING: Final = "\\N"
# Of a row's own text so much is shown beside its failure; its payload has all that was read.
SHOWN_CHARACTERS: Final = 10_000
# So much is held before it is written; a row is at most about as large.
PORTION_CHARACTERS: Final = 2 * 2**20
# A queue gets the very text, so nothing may rearrange it; the store will take it apart anyway.
# XML that deletes its object has true beside it, as the document.
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
_KNOWN: Final = "SELECT 1 FROM {ranges} WHERE number = %s"
_ALL_KNOWN: Final = "SELECT number FROM {ranges}"
_SAY: Final = "INSERT INTO {ranges} (number, file, read, good, bad) VALUES (%s, %s, %s, %s, %s)"
_COPY_DOCUMENTS: Final = "COPY {documents} (place, line, key, version, {members}) FROM STDIN"
_COPY_REJECTS: Final = (
    "COPY {rejects} (place, file, line, code, text, fingerprint, payload, raw) FROM STDIN"
)
_SUMS: Final = """
SELECT count(*), coalesce(sum(read), 0)::bigint, coalesce(sum(good), 0)::bigint,
  coalesce(sum(bad), 0)::bigint, count(sent), coalesce(sum(sent), 0)::bigint FROM {ranges}
"""


class Sums(NamedTuple):
    """The sums of the ranges that are staged, and of those that are sent."""

    ranges: int
    read: int
    good: int
    bad: int
    ranges_sent: int
    sent: int


class Stage(staging.Stage):
    """The tables of one import."""

    NAME = "sluice import"
    PARTS = ("ranges", "documents", "rejects")

    def make(self, session: Session, parameters: ImportParameters) -> None:
        kind = sql.SQL("jsonb" if parameters.target is None else "text")
        session.execute(self.sql(_TABLES, kind=kind))

    def staged(self, session: Session) -> set[int]:
        """The numbers of the ranges of which all is staged: nobody reads them again."""
        return {number for (number,) in session.execute(self.sql(_ALL_KNOWN))}

    def sums(self, session: Session) -> Sums:
        return Sums(*(session.execute(self.sql(_SUMS)).fetchone() or (0, 0, 0, 0, 0, 0)))


class Reading(NamedTuple):
    """What a task needs to read a range: how rows become documents, and where which file lies."""

    parameters: ImportParameters
    names: Sequence[str]
    facts: Facts
    storage: Storage = DISK


def stage(database: str, run: str, reading: Reading, part: Range) -> None:
    """Read a range, map its rows, and keep what became of them: once, however often it is asked.

    Raises JobError SOURCE_CHANGED where the file is not what was planned, before or behind that.
    """
    tables = Stage(run)
    with psycopg.connect(database, application_name=tables.NAME) as session:
        tables.hold(session, part.number)
        if session.execute(tables.sql(_KNOWN), [part.number]).fetchone() is not None:
            return
        portions = _Portions(session, tables, reading.parameters)
        same_file(part.file, reading.facts, reading.storage)
        read, bad = _write(portions, reading, message_ids(run), part)
        # Rows of another file are never kept: who puts the right one back goes on with its rows.
        same_file(part.file, reading.facts, reading.storage)
        session.execute(tables.sql(_SAY), [part.number, part.file, read, read - bad, bad])


def message_ids(run: str) -> str:
    """Return the beginning of the run's message ids: each is the run and the row's place in it."""
    return f"{UUID(run)}~"


def _write(portions: "_Portions", reading: Reading, ids: str, part: Range) -> tuple[int, int]:
    """Count the rows that were read, and those of them that are rejected."""
    mapper = Mapper(reading.parameters, reading.names)
    read = bad = 0
    first, _ = places(part.number)
    target = mapper.parameters.target
    for row in rows_of(part, reading.parameters, reading.names, reading.storage):
        place = first + read
        read += 1
        became = mapper.map(row)
        if target is not None and isinstance(became, Document):
            became = _fitting(became, f"{ids}{place}", target)
        if isinstance(became, Document):
            line = _document_line(place, row.line, became, is_xml=portions.have_xml)
            portions.add(line, is_good=True)
        else:
            bad += 1
            portions.add(_reject_line(place, part.file, row, became), is_good=False)
    portions.write()
    return read, bad


def _fitting(document: Document, message_id: str, target: Target) -> Document | Rejected:
    """The same, but a document that its topic would refuse is rejected."""
    size = target.excess(message_id, document.text)
    if not size:
        return document
    text = f"As a message it has {size:,} bytes, and the topic takes {target.largest_bytes:,}."
    return Rejected(Flaw("ROW_TOO_LONG", text), document.text.encode(), document.text)


class _Portions:
    """Lines on their way into the stage: little is held, however many there are."""

    def __init__(self, session: Session, tables: Stage, parameters: ImportParameters) -> None:
        self.have_xml = parameters.are_xml and parameters.target is None
        members = sql.SQL("xml, document" if self.have_xml else "document")
        self._session = session
        self._into = tables.sql(_COPY_DOCUMENTS, members=members), tables.sql(_COPY_REJECTS)
        self._lines: tuple[list[str], list[str]] = ([], [])
        self._held = 0

    def add(self, line: str, *, is_good: bool) -> None:
        self._lines[not is_good].append(line)
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


def _document_line(place: int, line: int, document: Document, *, is_xml: bool) -> str:
    text, key, version, deletes = document
    name = NOTHING if key is None else _escaped(key)
    number = NOTHING if version is None else version
    beside = f"\t{'true' if deletes else NOTHING}" if is_xml else ""
    return f"{place}\t{line}\t{name}\t{number}\t{_escaped(text)}{beside}\n"


def _reject_line(place: int, file: str, row: Row, rejected: Rejected) -> str:
    code, text = rejected.flaw[0], plain_text(rejected.flaw[1])
    fingerprint = Failure(FailureClass.PERMANENT, code, text).fingerprint
    columns = "\t".join(map(_escaped, (file, str(row.line), code, text, fingerprint)))
    shown = _escaped(plain_text(rejected.shown[:SHOWN_CHARACTERS]))
    return f"{place}\t{columns}\t\\\\x{rejected.payload.hex()}\t{shown}\n"


def _escaped(text: str) -> str:
    """Write it as COPY's text format reads it."""
    if "\\" in text:
        text = text.replace("\\", "\\\\")
    if not text.isprintable():
        text = text.replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")
    return text
