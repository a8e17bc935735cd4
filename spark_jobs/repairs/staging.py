"""What the change makes of the messages of a part, kept until the part is edited."""

from typing import Any, Final

import psycopg

from integration.documents.refusals import plain_text
from spark_jobs.imports.staging import lock_number
from spark_jobs.repairs.freezing import Part, Tables
from spark_jobs.repairs.judging import COLUMNS, Judge, Row
from spark_jobs.repairs.parameters import RepairParameters

_IS_DONE: Final = """
SELECT 1 FROM {judged} WHERE part = %(part)s
UNION ALL SELECT 1 FROM {applied} WHERE part = %(part)s
"""
_READ: Final = f"""
SELECT {COLUMNS} FROM {{items}} i LEFT JOIN integration_messageerror e ON e.id = i.id
WHERE i.place >= %s AND i.place < %s ORDER BY i.place
"""
_COPY: Final = "COPY {results} (place, id, version, queue, kind, text, payload) FROM STDIN"
_SAY: Final = "INSERT INTO {judged} (part, rows) VALUES (%s, %s)"


def stage(database: str, run: str, parameters: RepairParameters, part: Part) -> None:
    """Judge the messages of a part: once, however often it is asked.

    A part is small enough to be held in memory: it was cut by the bytes of its messages.
    """
    tables = Tables(run)
    with psycopg.connect(database, application_name="sluice repair") as session:
        session.execute("SELECT pg_advisory_xact_lock(%s)", [lock_number(run, part.number)])
        if session.execute(tables.sql(_IS_DONE), {"part": part.number}).fetchone() is not None:
            return
        rows = [Row(*values) for values in _read(session, tables, part)]
        judge = Judge(parameters)
        with session.cursor() as cursor, cursor.copy(tables.sql(_COPY)) as copy:
            for row in rows:
                kind, why, change = judge.judge(row)
                payload = None if change is None else change.record
                place = (row.place, row.id, row.version, row.queue)
                copy.write_row((*place, kind.value, plain_text(why), payload))
        session.execute(tables.sql(_SAY), [part.number, len(rows)])


def _read(session: psycopg.Connection[Any], tables: Tables, part: Part) -> list[tuple[Any, ...]]:
    return session.execute(tables.sql(_READ), [part.begin, part.end]).fetchall()
