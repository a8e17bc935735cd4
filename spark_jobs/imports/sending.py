"""Sends what a run has staged to its queue: which rows are sent, and how their records are read."""

from collections.abc import Iterator
from functools import partial
from typing import Final

from psycopg import sql
from psycopg.types.string import ByteaBinaryLoader

from integration.envelope.writing import PLAIN_BELOW
from spark_jobs.imports.parameters import ImportParameters
from spark_jobs.imports.planning import Plan
from spark_jobs.imports.rows import Range
from spark_jobs.imports.staging import Stage, message_ids
from spark_jobs.imports.storing import SORTING, complete, refuse_many, take_out
from spark_jobs.sending import Sending, send_range
from spark_jobs.staging import Session, places

_BY_PLACE: Final = "CREATE INDEX IF NOT EXISTS {name} ON {documents} (place)"
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


def prepare(session: Session, tables: Stage, parameters: ImportParameters, plan: Plan) -> None:
    """Leave in the stage what is to be sent, and let it be found.

    Raises JobError NOT_STAGED, TOO_MANY_REJECTS.
    """
    with session.transaction():
        session.execute(SORTING)
        staged = complete(session, tables, plan)
        if parameters.structure is not None:
            take_out(session, tables, parameters)
        # A run of which something is out goes on with the others.
        if not staged.sums.ranges_sent:
            refuse_many(session, tables, parameters)
        session.execute(tables.sql(_BY_PLACE, name=tables.named("by_place")))


def send(what: Sending, part: Range) -> None:
    """Send a range, unless it was. Raises JobError: NOT_DELIVERED, KAFKA_UNUSABLE, RUN_TAKEN."""
    tables = Stage(what.owned.run)
    send_range(what, tables, part.number, partial(_records, what, tables, part))


def _records(
    what: Sending, tables: Stage, part: Range, session: Session
) -> Iterator[tuple[bytes | None, bytes]]:
    ids, alike = message_ids(what.owned.run), what.target.alike
    begin, end = places(part.number)
    values = {
        "begin": begin,
        "end": end,
        # What stands around the payload and the place in all records, and in which payloads.
        "before": alike.before,
        "between": f'{alike.between}"{ids}',
        "after": f'"{alike.after}',
        "plain_below": PLAIN_BELOW,
    }
    read = tables.sql(_READ, **{name: sql.Literal(value) for name, value in values.items()})
    with session.cursor() as cursor:
        # Texts as they are on the wire.
        cursor.adapters.register_loader("text", ByteaBinaryLoader)
        for place, key, record, text in cursor.stream(read, binary=True, size=ROWS_AT_A_TIME):
            yield key, record or what.target.record(f"{ids}{place}", text.decode())
