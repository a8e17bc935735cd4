"""The choice of a replay, kept in tables of the run's own until all of it is handed out.

A task's share is staged in one transaction that also says so: whoever comes again finds it done.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any, Final, LiteralString, NamedTuple

import psycopg
from psycopg import sql
from psycopg.types.json import Jsonb

from integration.codec import encode_headers
from integration.documents.refusals import plain_text
from integration.documents.structures import Entry
from integration.policy.failure import Failure
from spark_jobs import staging
from spark_jobs.errors import not_staged
from spark_jobs.replay.choosing import Chosen, Record
from spark_jobs.staging import Session, copy_rows

_TABLES: Final = """
CREATE UNLOGGED TABLE IF NOT EXISTS {shares} (
  number int PRIMARY KEY, first_partition int, first_offset bigint, read bigint NOT NULL,
  chosen bigint NOT NULL, rejected bigint NOT NULL);
CREATE UNLOGGED TABLE IF NOT EXISTS {messages} (
  partition int NOT NULL, "offset" bigint NOT NULL, at_ms bigint NOT NULL, key bytea,
  headers jsonb NOT NULL, payload bytea, message_id text NOT NULL, interface text NOT NULL,
  order_value bytea, PRIMARY KEY (partition, "offset"));
CREATE UNLOGGED TABLE IF NOT EXISTS {documents} (
  partition int NOT NULL, "offset" bigint NOT NULL, at_ms bigint NOT NULL, key text NOT NULL,
  version numeric, document jsonb, xml text NOT NULL, message_id text NOT NULL,
  PRIMARY KEY (partition, "offset"));
CREATE UNLOGGED TABLE IF NOT EXISTS {rejects} (
  partition int NOT NULL, "offset" bigint NOT NULL, code text NOT NULL, text text NOT NULL);
"""
_KNOWN: Final = "SELECT first_partition, first_offset FROM {shares} WHERE number = %s"
_SAY: Final = """
INSERT INTO {shares} (number, first_partition, first_offset, read, chosen, rejected)
VALUES (%s, %s, %s, %s, %s, %s)
"""
_MESSAGES: Final = (
    'COPY {messages} (partition, "offset", at_ms, key, headers, payload, message_id, interface, '
    "order_value) FROM STDIN"
)
_DOCUMENTS: Final = (
    'COPY {documents} (partition, "offset", at_ms, key, version, document, xml, message_id) '
    "FROM STDIN"
)
_REJECTS: Final = 'COPY {rejects} (partition, "offset", code, text) FROM STDIN'
# Payloads of this size lie in memory together while their share is staged.
LOT_BYTES: Final = 8 * 2**20
LOT_RECORDS: Final = 1_000
LONGEST: Final = 1_000
NEW_RUN: Final = "Ask for a new run."

Place = tuple[int, int]
Taken = tuple[Record, Chosen | None]


class Share(NamedTuple):
    """The result of one task's share."""

    read: int = 0
    chosen: int = 0
    rejected: int = 0


class Stage(staging.Stage):
    """The tables of one replay."""

    NAME = "sluice replay"
    PARTS = ("shares", "messages", "documents", "rejects")

    def make(self, session: Session) -> None:
        session.execute(self.sql(_TABLES))

    def staged(self, session: Session) -> tuple[int, Share]:
        """Count the shares that are staged, and sum up what they came to."""
        row = session.execute(
            self.sql(
                "SELECT count(*), coalesce(sum(read), 0)::bigint, "
                "coalesce(sum(chosen), 0)::bigint, coalesce(sum(rejected), 0)::bigint FROM {shares}"
            )
        ).fetchone()
        count, *sums = row or (0, 0, 0, 0)
        return count, Share(*sums)


Choose = Callable[[Session, Sequence[Record]], Sequence[Taken]]
"""Says which records of a lot are messages that were asked for; a lot is of one partition."""
Take = Callable[[Session, Stage, Sequence[Taken]], int]
"""Keeps or sends what was chosen of a lot; returns how many cannot be."""


def stage(
    database: str,
    tables: Stage,
    number: int,
    records: Iterator[Record],
    how: tuple[Choose, Take],
) -> None:
    """Stage a task's share, once however often it is tried.

    Raises JobError NOT_STAGED when the share of that number was another one.
    """
    choose, take = how
    with psycopg.connect(database, application_name=tables.NAME) as session:
        tables.hold(session, number)
        first = next(records, None)
        place = (None, None) if first is None else (first.partition, first.offset)
        row = session.execute(tables.sql(_KNOWN), [number]).fetchone()
        if row is not None:
            if row != place:
                raise not_staged(
                    "The range is cut into other shares than when the run began.", NEW_RUN
                )
            return
        share = Share()
        for lot in _lots(records if first is None else chain([first], records)):
            taken = choose(session, lot)
            rejected = take(session, tables, taken)
            chosen = sum(message is not None for _, message in taken)
            share = Share(share.read + len(lot), share.chosen + chosen, share.rejected + rejected)
        session.execute(tables.sql(_SAY), [number, *place, *share])


def keep_messages(
    order_value: Callable[[Chosen], bytes | None],
    session: Session,
    tables: Stage,
    lot: Sequence[Taken],
) -> int:
    """A Take, once it is told where their keys are: the messages as they came, for their queue."""
    rows = (
        (
            *(record.partition, record.offset, record.timestamp_ms, record.key),
            *(Jsonb(encode_headers(record.headers)), record.value),
            plain_text(message.message_id)[:LONGEST],
            plain_text(message.interface)[:100],
            order_value(message),
        )
        for record, message in lot
        if message is not None
    )
    copy_rows(session, tables.sql(_MESSAGES), rows)
    return 0


Judged = tuple[Record, Chosen, Entry | Failure]


def keep_documents(session: Session, tables: Stage, judged: Sequence[Judged]) -> int:
    """Documents as they would be stored; returns how many cannot be."""
    documents: list[tuple[Any, ...]] = []
    rejects: list[tuple[Any, ...]] = []
    for record, message, entry in judged:
        place = (record.partition, record.offset)
        if isinstance(entry, Failure):
            rejects.append((*place, entry.code, plain_text(entry.text)[:LONGEST]))
        else:
            stored = (entry.key, entry.version, entry.document, entry.xml)
            id_ = plain_text(message.message_id)
            documents.append((*place, record.timestamp_ms, *stored, id_))
    copy_rows(session, tables.sql(_DOCUMENTS), documents)
    if rejects:
        copy_rows(session, tables.sql(_REJECTS), rejects)
    return len(rejects)


def _lots(records: Iterator[Record]) -> Iterator[list[Record]]:
    """A bounded number of records at a time, and of bytes."""
    lot: list[Record] = []
    size = 0
    for record in records:
        lot.append(record)
        size += len(record.value or b"")
        if len(lot) >= LOT_RECORDS or size >= LOT_BYTES:
            yield lot
            lot, size = [], 0
    if lot:
        yield lot


def whole(session: Session, table: LiteralString, expected: int) -> None:
    """Raise JobError NOT_STAGED unless the table has what the shares say they have kept.

    The stage is not written ahead: what the database lost in a crash must not be left out silently.
    """
    counted = session.execute(sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(table)))
    (count,) = counted.fetchone() or (0,)
    if count != expected:
        raise not_staged(f"{count:,} of {expected:,} chosen messages are staged.", NEW_RUN)
