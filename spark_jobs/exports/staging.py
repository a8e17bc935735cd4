"""The messages that an export's rows become, kept in tables of the run's own until all are there.

All of them are of one moment, so they are staged by one try: what an earlier one left half done is
taken away. What is whole stays until every message is in Kafka, and is read again by every rerun.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple

import psycopg
from psycopg import sql

from spark_jobs import staging
from spark_jobs.errors import JobError
from spark_jobs.exports.parameters import What
from spark_jobs.exports.planning import Range
from spark_jobs.exports.reading import Source, raw_rows
from spark_jobs.exports.shaping import json_lines, shaped
from spark_jobs.fencing import Owned
from spark_jobs.sending import Sending, claim_range, send_range
from spark_jobs.staging import Session, copy_rows, places
from spark_jobs.tables.columns import Column, ColumnKind
from spark_jobs.topics.target import Target

# The row, and which state of it: a rerun names it so again, and what changed since otherwise. No
# index keeps a track's number unique; it tells rows of one moment apart.
_IDS: Final = {
    What.DOCUMENTS: "t.id || '.' || t.version",
    What.MESSAGES: "(extract(epoch FROM t.at) * 1000000)::bigint || '.' || t.id",
}
_KEY: Final = Column("its key", ColumnKind.TEXT, "nullif(t.key, '')")
_TABLES: Final = """
CREATE UNLOGGED TABLE {ranges} (number int PRIMARY KEY, rows bigint NOT NULL, sent bigint);
CREATE UNLOGGED TABLE {messages} (
  place bigint NOT NULL, id text NOT NULL, key text, payload text NOT NULL);
"""
_BY_PLACE: Final = "CREATE INDEX IF NOT EXISTS {by_place} ON {messages} (place)"
_WHOLE: Final = "whole"
_SEAL: Final = "COMMENT ON TABLE {messages} IS {whole}"
_SEALED: Final = "SELECT obj_description(to_regclass({name}), 'pg_class')"
_SAY: Final = "INSERT INTO {ranges} (number, rows) VALUES (%s, %s)"
_COPY: Final = "COPY {messages} (place, id, key, payload) FROM STDIN"
_READ: Final = """
COPY (SELECT id, key, payload FROM {messages}
  WHERE place >= {begin} AND place < {end} ORDER BY place) TO STDOUT (FORMAT binary)
"""
_SUMS: Final = """
SELECT count(*), coalesce(sum(rows), 0)::bigint, count(sent), coalesce(sum(sent), 0)::bigint
FROM {ranges}
"""


class Sums(NamedTuple):
    """Ranges that are staged and their rows; ranges that are sent and their records."""

    ranges: int
    rows: int
    ranges_sent: int
    sent: int


class Message(NamedTuple):
    """The message that a row becomes."""

    id: str
    key: str | None
    payload: str


class Stage(staging.Stage):
    """The tables of one export."""

    NAME = "sluice export"
    PARTS = ("ranges", "messages")

    def remake(self, session: Session) -> None:
        """Empty tables. Waits for tasks of an earlier try that are at work with the old ones."""
        self.drop(session)
        session.execute(self.sql(_TABLES))

    def order(self, session: Session) -> None:
        """Let each range be found."""
        session.execute(self.sql(_BY_PLACE, by_place=self.named("by_place")))

    def seal(self, session: Session) -> None:
        """Say that all of it is there."""
        session.execute(self.sql(_SEAL, whole=sql.Literal(_WHOLE)))

    def is_whole(self, session: Session, ranges: int) -> bool:
        """Return whether all ranges are there; after the database crashed the tables are empty."""
        name = sql.Literal(f"{self.name}_messages")
        seal = session.execute(self.sql(_SEALED, name=name)).fetchone()
        return seal == (_WHOLE,) and self.sums(session).ranges == ranges

    def sums(self, session: Session) -> Sums:
        return Sums(*(session.execute(self.sql(_SUMS)).fetchone() or (0, 0, 0, 0)))


def stage(source: Source, owned: Owned, part: Range) -> None:
    """Keep the messages of a range, once, however often it is asked.

    Raises JobError RUN_TAKEN, TOO_LARGE_FOR_TOPIC.
    """
    tables = Stage(owned.run)
    with psycopg.connect(source.database, application_name=tables.NAME) as session:
        if claim_range(session, tables, owned, part.number) is not None:
            return
        first, _ = places(part.number)
        rows = (
            (place, *row) for place, row in enumerate(_messages(source, owned.run, part), first)
        )
        count = copy_rows(session, tables.sql(_COPY), rows)
        session.execute(tables.sql(_SAY), [part.number, count])


def send(what: Sending, part: Range) -> None:
    """Send a range, unless it was. Raises JobError: NOT_DELIVERED, KAFKA_UNUSABLE, RUN_TAKEN."""
    tables = Stage(what.owned.run)
    send_range(what, tables, part.number, partial(_records, tables, what.target, part))


def _records(
    tables: Stage, target: Target, part: Range, session: Session
) -> Iterator[tuple[bytes | None, bytes]]:
    begin, end = map(sql.Literal, places(part.number))
    read = tables.sql(_READ, begin=begin, end=end)
    with session.cursor() as cursor, cursor.copy(read) as copy:
        copy.set_types(["text", "text", "text"])
        for id_, key, payload in copy.rows():
            yield None if key is None else key.encode(), target.record(id_, payload)


def _messages(source: Source, run: str, part: Range) -> Iterator[Message]:
    """The messages that the rows of a range become."""
    parameters, selection = source.parameters, source.selection
    target = parameters.target
    assert target is not None  # noqa: S101 - else there are no messages
    columns, values = shaped(parameters, selection)
    lines = json_lines(columns)
    id_ = Column("its id", ColumnKind.TEXT, _IDS[parameters.what])
    named = replace(selection, columns=(*selection.columns, id_, _KEY))
    for row in raw_rows(source._replace(selection=named), part):
        *_, own, key = row
        message = Message(f"{run}~{own}", key, lines([values(row)])[:-1])
        _check_size(target, message)
        yield message


def _check_size(target: Target, row: Message) -> None:
    size = target.excess(row.id, row.payload)
    if size:
        raise JobError(
            "TOO_LARGE_FOR_TOPIC",
            f"The row with the key {(row.key or '')[:200]!r} has {size:,} bytes as a message, and "
            f"the topic {target.topic} takes {target.largest_bytes:,}.",
            "Export fewer columns, or let the topic take more; then ask for a new run.",
        )
