"""Sends what an export has staged to its queue: each range by one task, at least once.

A range is written down as sent when Kafka has confirmed all of it: whoever comes again passes over
it, and a range that was sent and not written down is sent again, under the same message ids.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import psycopg
from psycopg import sql

from spark_jobs.exports.planning import Range
from spark_jobs.exports.staging import NAME, Stage, claim_range
from spark_jobs.imports.owning import Owned
from spark_jobs.problems import lost
from spark_jobs.topics.producing import Sender, open_sender
from spark_jobs.topics.target import Target

_READ: Final = """
COPY (SELECT id, key, payload FROM {messages}
  WHERE place >= {begin} AND place < {end} ORDER BY place) TO STDOUT (FORMAT binary)
"""
_SAY: Final = "UPDATE {ranges} SET sent = %s WHERE number = %s"


class Sending(NamedTuple):
    """What a task is told: where the stage is, and Kafka, whose run it is, and who takes it."""

    database: str
    kafka: Mapping[str, str]
    owned: Owned
    target: Target


def send(what: Sending, part: Range) -> int:
    """Send a range, unless it was; how many records of it are in Kafka when this returns.

    Raises JobError: NOT_DELIVERED, KAFKA_UNUSABLE, RUN_TAKEN.
    """
    tables = Stage(what.owned.run)
    with psycopg.connect(what.database, application_name=NAME) as session:
        known = claim_range(session, tables, what.owned, part)
        if known is None:
            raise lost()
        if known[0] is not None:
            return known[0]
        sender = open_sender({"batch.size": what.target.packet_bytes, **what.kafka})
        _hand_over(session, sender, what, part)
        count = sender.finish()
        session.execute(tables.sql(_SAY), [count, part.number])
    return count


def _hand_over(
    session: psycopg.Connection[Any], sender: Sender, what: Sending, part: Range
) -> None:
    tables, target = Stage(what.owned.run), what.target
    begin, end = map(sql.Literal, tables.places(part))
    read = tables.sql(_READ, begin=begin, end=end)
    with session.cursor() as cursor, cursor.copy(read) as copy:
        copy.set_types(["text", "text", "text"])
        for id_, key, payload in copy.rows():
            encoded = None if key is None else key.encode()
            sender.send(target.topic, encoded, target.record(id_, payload))
