"""The messages that an export's rows become, kept in tables of the run's own until all are there.

All of them are of one moment, so they are staged by one try: what an earlier one left half done is
taken away. What is whole stays until every message is in Kafka, and is read again by every rerun.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, LiteralString, NamedTuple
from uuid import UUID

import psycopg
from psycopg import sql

from spark_jobs.exports.parameters import What
from spark_jobs.exports.planning import Range
from spark_jobs.exports.shaping import Row, json_lines, shaped
from spark_jobs.exports.writing import Source, raw_rows
from spark_jobs.imports.owning import Owned, stay_ours
from spark_jobs.imports.staging import lock_number
from spark_jobs.problems import JobError, lost
from spark_jobs.tables.columns import Column, Kind
from spark_jobs.topics.target import Target

NAME: Final = "sluice export"
# A message's place in its run: the range's number, and the row's within it.
PLACES_BITS: Final = 32
# The row, and which state of it: a rerun names it so again, and what changed since otherwise. No
# index keeps a track's number unique; it tells rows of one moment apart.
_IDS: Final = {
    What.DOCUMENTS: "t.id || '.' || t.version",
    What.MESSAGES: "(extract(epoch FROM t.at) * 1000000)::bigint || '.' || t.id",
}
_KEY: Final = Column("its key", Kind.TEXT, "nullif(t.key, '')")
_TABLES: Final = """
CREATE UNLOGGED TABLE {ranges} (number int PRIMARY KEY, rows bigint NOT NULL, sent bigint);
CREATE UNLOGGED TABLE {messages} (
  place bigint NOT NULL, id text NOT NULL, key text, payload text NOT NULL);
"""
_DROP: Final = "DROP TABLE IF EXISTS {ranges}, {messages}"
_BY_PLACE: Final = "CREATE INDEX IF NOT EXISTS {by_place} ON {messages} (place)"
_WHOLE: Final = "whole"
_SEAL: Final = "COMMENT ON TABLE {messages} IS {whole}"
_SEALED: Final = "SELECT obj_description(to_regclass({name}), 'pg_class')"
_LOCK: Final = "SELECT pg_advisory_xact_lock(%s)"
_KNOWN: Final = "SELECT sent FROM {ranges} WHERE number = %s"
_SAY: Final = "INSERT INTO {ranges} (number, rows) VALUES (%s, %s)"
_COPY: Final = "COPY {messages} (place, id, key, payload) FROM STDIN"
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
    """What a row becomes."""

    id: str
    key: str | None
    payload: str


class Stage:
    """The tables of one run."""

    def __init__(self, run: str) -> None:
        self._name = f"bulk_{UUID(run).hex}"
        self._names = {
            part: sql.Identifier(f"{self._name}_{part}")
            for part in ("ranges", "messages", "by_place")
        }

    def sql(self, text: LiteralString, **more: sql.Composable) -> sql.Composed:
        return sql.SQL(text).format(**self._names, **more)

    def remake(self, session: psycopg.Connection[Any]) -> None:
        """Empty tables. Waits for tasks of an earlier try that are at work with the old ones."""
        self.drop(session)
        session.execute(self.sql(_TABLES))

    def order(self, session: psycopg.Connection[Any]) -> None:
        """Let each range be found."""
        session.execute(self.sql(_BY_PLACE))

    def seal(self, session: psycopg.Connection[Any]) -> None:
        """Say that all of it is there."""
        session.execute(self.sql(_SEAL, whole=sql.Literal(_WHOLE)))

    def is_whole(self, session: psycopg.Connection[Any], ranges: int) -> bool:
        """Whether all ranges are there; after a crash of the database the tables are empty."""
        name = sql.Literal(f"{self._name}_messages")
        found = session.execute(self.sql(_SEALED, name=name)).fetchone()
        return found == (_WHOLE,) and self.sums(session).ranges == ranges

    def sums(self, session: psycopg.Connection[Any]) -> Sums:
        return Sums(*(session.execute(self.sql(_SUMS)).fetchone() or (0, 0, 0, 0)))

    def drop(self, session: psycopg.Connection[Any]) -> None:
        session.execute(self.sql(_DROP))

    @staticmethod
    def places(part: Range) -> tuple[int, int]:
        """The first place of a range, and the first behind it."""
        return part.number << PLACES_BITS, (part.number + 1) << PLACES_BITS


def stage(source: Source, owned: Owned, part: Range) -> int:
    """Keep the messages of a range, once, however often it is asked; how many they are.

    Raises JobError RUN_TAKEN, TOO_LARGE_FOR_TOPIC.
    """
    target = source.parameters.target
    assert target is not None  # noqa: S101 - else there are no messages
    tables, count = Stage(owned.run), 0
    first, _ = tables.places(part)
    with psycopg.connect(source.database, application_name=NAME) as session:
        if claim_range(session, tables, owned, part) is not None:
            return 0
        with session.cursor() as cursor, cursor.copy(tables.sql(_COPY)) as copy:
            for one in messages(source, owned.run, part):
                _fits(target, one)
                copy.write_row((first + count, *one))
                count += 1
        session.execute(tables.sql(_SAY), [part.number, count])
    return count


def claim_range(
    session: psycopg.Connection[Any], tables: Stage, owned: Owned, part: Range
) -> tuple[int | None] | None:
    """Hold a range until the transaction ends: what is written of it, or None if nothing is.

    The look at the table comes first: from then on nobody replaces it by a new one.
    Raises JobError RUN_TAKEN.
    """
    session.execute(_LOCK, [lock_number(owned.run, part.number)])
    try:
        known = session.execute(tables.sql(_KNOWN), [part.number]).fetchone()
    except psycopg.errors.UndefinedTable:
        raise lost() from None
    stay_ours(session, owned)
    return known


def messages(source: Source, run: str, part: Range) -> Iterator[Message]:
    """The messages that the rows of a range become."""
    parameters, selection = source.parameters, source.selection
    columns, values = shaped(parameters, selection)
    text = _one_line(json_lines(columns))
    id_ = Column("its id", Kind.TEXT, _IDS[parameters.what])
    named = replace(selection, columns=(*selection.columns, id_, _KEY))
    for row in raw_rows(source._replace(selection=named), part):
        *_, own, key = row
        yield Message(f"{run}~{own}", key, text(values(row)))


def _one_line(lines: Callable[[Sequence[Row]], str]) -> Callable[[Row], str]:
    return lambda row: lines([row])[:-1]


def _fits(target: Target, one: Message) -> None:
    size = target.excess(one.id, one.payload)
    if size:
        raise JobError(
            "TOO_LARGE_FOR_TOPIC",
            f"The row with the key {(one.key or '')[:200]!r} has {size:,} bytes as a message, and "
            f"the topic {target.topic} takes {target.largest_bytes:,}.",
            "Export fewer columns, or let the topic take more; then ask for a new run.",
        )
