"""Sends what a run has staged to its queue: each range by one task, at least once.

Nothing goes out before every row was read and judged. A range is written down as sent when Kafka
has confirmed all of it: whoever comes again passes over it, and a range that was sent and not
written down is sent again, under the same message ids.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import psycopg
from psycopg import sql
from psycopg.types.string import ByteaBinaryLoader

from spark_jobs.imports.duplicates import take_out
from spark_jobs.imports.envelopes import Envelopes
from spark_jobs.imports.owning import Owned, stay_ours
from spark_jobs.imports.parameters import ImportParameters
from spark_jobs.imports.planning import Plan
from spark_jobs.imports.rows import Range
from spark_jobs.imports.staging import PLACES_BITS, Stage, lock_number
from spark_jobs.imports.storing import SORTING, complete
from spark_jobs.problems import lost
from spark_jobs.topics.producing import Sender, open_sender

_BY_PLACE: Final = "CREATE INDEX IF NOT EXISTS {name} ON {documents} (place)"
_LOCK: Final = "SELECT pg_advisory_xact_lock(%s)"
_KNOWN: Final = "SELECT sent FROM {ranges} WHERE number = %s"
# The database writes most records itself, as `Alike` does: what it says of a text as a JSON string
# is what Python says. Of the others it gives the document.
_READ: Final = """
SELECT place, key,
  CASE WHEN is_plain
    THEN {before} || to_json(document)::text || {between} || place || {after} END,
  CASE WHEN NOT is_plain THEN document END
FROM (
  SELECT *, octet_length(document) < {plain_below} AND left(document, 1) = '{{' AS is_plain
  FROM {documents} WHERE place >= {begin} AND place < {end} ORDER BY place
) d
"""
# So many rows come from the database at a time: one by one, as COPY gives them, each would cost
# Python as much again as to hand it over. What is held is that many of the largest records.
ROWS_AT_A_TIME: Final = 100
_SAY: Final = "UPDATE {ranges} SET sent = %s WHERE number = %s"
_SENT: Final = "SELECT number, sent FROM {ranges} WHERE sent IS NOT NULL"


class Sent(NamedTuple):
    """How many records of a range are in Kafka."""

    number: int
    records: int


class Sending(NamedTuple):
    """What a task is told: where the stage is, and Kafka, whose run it is, and what it sends."""

    database: str
    kafka: Mapping[str, str]
    owned: Owned
    parameters: ImportParameters


def prepare(
    session: psycopg.Connection[Any], owned: Owned, parameters: ImportParameters, plan: Plan
) -> None:
    """Leave in the stage what is to be sent, and let it be found. Raises JobError NOT_STAGED."""
    tables = Stage(owned.run)
    with session.transaction():
        session.execute(SORTING)
        complete(session, tables, plan)
        if parameters.structure is not None:
            take_out(session, tables, parameters)
        session.execute(tables.sql(_BY_PLACE, name=tables.named("by_place")))


def sent(session: psycopg.Connection[Any], owned: Owned) -> list[Sent]:
    """The ranges that are written down as sent."""
    found = session.execute(Stage(owned.run).sql(_SENT)).fetchall()
    return [Sent(*values) for values in found]


def send(what: Sending, part: Range) -> Sent:
    """Send a range, unless it was; it is in Kafka when this returns.

    Raises JobError: NOT_DELIVERED, KAFKA_UNUSABLE, RUN_TAKEN.
    """
    tables = Stage(what.owned.run)
    with psycopg.connect(what.database, application_name="sluice import") as session:
        session.execute(_LOCK, [lock_number(what.owned.run, part.number)])
        stay_ours(session, what.owned)
        known = session.execute(tables.sql(_KNOWN), [part.number]).fetchone()
        if known is None:
            raise lost()
        if known[0] is not None:
            return Sent(part.number, known[0])
        target = what.parameters.target
        assert target is not None  # noqa: S101 - else nothing is sent
        sender = open_sender({"batch.size": target.packet_bytes, **what.kafka})
        _hand_over(session, sender, what, part, target.topic)
        count = sender.finish()
        session.execute(tables.sql(_SAY), [count, part.number])
        return Sent(part.number, count)


def _hand_over(
    session: psycopg.Connection[Any], sender: Sender, what: Sending, part: Range, topic: str
) -> None:
    envelopes = Envelopes(what.owned.run, what.parameters)
    first = part.number << PLACES_BITS
    said = {"begin": first, "end": first + (1 << PLACES_BITS), **envelopes.around()}
    read = Stage(what.owned.run).sql(_READ, **{n: sql.Literal(v) for n, v in said.items()})
    with session.cursor() as cursor:
        # Texts as they are on the wire.
        cursor.adapters.register_loader("text", ByteaBinaryLoader)
        for place, key, record, text in cursor.stream(read, binary=True, size=ROWS_AT_A_TIME):
            value = envelopes.record(text.decode(), place) if record is None else record
            sender.send(topic, key, value)
