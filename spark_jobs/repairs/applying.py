"""Judges the messages of a part, and edits them as the console's bulk edit does.

What the change makes of them is kept until the part is edited, in one short commit.
"""

from typing import Any, Final

import psycopg
from psycopg import sql
from psycopg.errors import DeadlockDetected, LockNotAvailable

from integration.documents.refusals import plain_text
from spark_jobs.errors import not_staged
from spark_jobs.fencing import Owned, fence
from spark_jobs.repairs.freezing import Part, Tables
from spark_jobs.repairs.judging import COLUMNS, Judge, Row
from spark_jobs.repairs.parameters import RepairParameters
from spark_jobs.staging import Session, copy_rows

# A person or the engine may hold a row; what they hold for longer is left alone.
PATIENCE: Final = "3s"
_WAIT, _PASS = sql.SQL(""), sql.SQL("SKIP LOCKED")
# The lock of a part's edit is another one than that of its judgement.
EDITS: Final = 2**32
_IS_JUDGED: Final = """
SELECT 1 FROM {judged} WHERE part = %(part)s
UNION ALL SELECT 1 FROM {applied} WHERE part = %(part)s
"""
_READ: Final = f"""
SELECT {COLUMNS} FROM {{items}} i LEFT JOIN integration_messageerror e ON e.id = i.id
WHERE i.place >= %s AND i.place < %s ORDER BY i.place
"""
_COPY: Final = "COPY {results} (place, id, version, queue, kind, text, payload) FROM STDIN"
_SAY_JUDGED: Final = "INSERT INTO {judged} (part, rows) VALUES (%s, %s)"
_IS_DONE: Final = "SELECT 1 FROM {applied} WHERE part = %(part)s"
# A message is edited if it is still on hold at the version that was read; what it was before
# stands in its history. Locked in the order of ids, as the operations of the console do.
_EDIT: Final = """
WITH wanted AS MATERIALIZED (
  SELECT place, id, version, queue, payload FROM {results}
  WHERE place >= %(begin)s AND place < %(end)s AND kind = 'FITS'
), held AS MATERIALIZED (
  SELECT e.id, coalesce(e.edited_payload, e.payload) AS before
  FROM integration_messageerror e JOIN wanted w ON w.id = e.id
  WHERE e.version = w.version AND e.state = 'HOLD'
  ORDER BY e.id FOR NO KEY UPDATE OF e {way}
), edited AS (
  UPDATE integration_messageerror e SET edited_payload = w.payload, edited_by = %(actor)s,
    edited_at = clock_timestamp(), version = e.version + 1
  FROM held h JOIN wanted w ON w.id = h.id WHERE e.id = h.id
), noted AS (
  INSERT INTO integration_errorchange
    (error_id, at, actor, action, from_state, to_state, reason, payload_before, operation)
  SELECT id, clock_timestamp(), %(actor)s, 'edit', 'HOLD', 'HOLD', %(reason)s, before,
    %(run)s::uuid FROM held
)
INSERT INTO {outcomes} (place, id, version, queue, kind, text)
SELECT w.place, w.id, w.version, w.queue, 'EDITED', '' FROM held h JOIN wanted w ON w.id = h.id
"""
_LEAVE: Final = """
INSERT INTO {outcomes} (place, id, version, queue, kind, text)
SELECT r.place, r.id, r.version, r.queue, CASE WHEN r.kind <> 'FITS' THEN r.kind
  WHEN e.id IS NULL THEN 'GONE' WHEN e.version <> r.version THEN 'MOVED_ON'
  WHEN e.state <> 'HOLD' THEN 'WRONG_STATE' ELSE 'IN_WORK' END, r.text
FROM {results} r LEFT JOIN integration_messageerror e ON e.id = r.id AND r.kind = 'FITS'
WHERE r.place >= %(begin)s AND r.place < %(end)s
  AND NOT EXISTS (SELECT 1 FROM {outcomes} o WHERE o.place = r.place)
"""
_SAY: Final = "INSERT INTO {applied} (part, rows) VALUES (%(part)s, %(rows)s)"


def stage(database: str, run: str, parameters: RepairParameters, part: Part) -> None:
    """Judge the messages of a part: once, however often it is asked.

    A part is small enough to be held in memory: it was cut by the bytes of its messages.
    """
    tables = Tables(run)
    with psycopg.connect(database, application_name=tables.NAME) as session:
        tables.hold(session, part.number)
        if session.execute(tables.sql(_IS_JUDGED), {"part": part.number}).fetchone() is not None:
            return
        rows = session.execute(tables.sql(_READ), [part.begin, part.end]).fetchall()
        judge = Judge(parameters)
        judged = (_result(judge, Row(*values)) for values in rows)
        copy_rows(session, tables.sql(_COPY), judged)
        session.execute(tables.sql(_SAY_JUDGED), [part.number, len(rows)])


def _result(judge: Judge, row: Row) -> tuple[Any, ...]:
    kind, why, change = judge.judge(row)
    payload = None if change is None else change.record
    return row.place, row.id, row.version, row.queue, kind.value, plain_text(why), payload


def apply(database: str, owned: Owned, part: Part) -> None:
    """Edit what fits of a part: once, however often it is asked.

    Raises JobError NOT_STAGED, RUN_TAKEN.
    """
    tables = Tables(owned.run)
    values = {
        "part": part.number,
        "begin": part.begin,
        "end": part.end,
        "rows": part.rows,
        "run": owned.run,
        "actor": owned.actor,
        "reason": owned.reason,
    }
    with psycopg.connect(database, application_name=tables.NAME, autocommit=True) as session:
        try:
            with session.transaction():
                _apply(session, tables, owned, values, _WAIT)
        except (LockNotAvailable, DeadlockDetected):
            with session.transaction():
                _apply(session, tables, owned, values, _PASS)


def _apply(
    session: Session, tables: Tables, owned: Owned, values: dict[str, Any], way: sql.SQL
) -> None:
    tables.hold(session, EDITS + values["part"])
    if session.execute(tables.sql(_IS_DONE), values).fetchone() is not None:
        return
    session.execute(sql.SQL("SET LOCAL lock_timeout = {}").format(sql.Literal(PATIENCE)))
    edited = session.execute(tables.sql(_EDIT, way=way), values).rowcount
    left = session.execute(tables.sql(_LEAVE), values).rowcount
    if edited + left != values["rows"]:
        raise not_staged(f"{edited + left:,} of {values['rows']:,} messages of a part are judged.")
    session.execute(tables.sql(_SAY), values)
    session.execute("SET LOCAL lock_timeout = 0")
    fence(session, owned)
