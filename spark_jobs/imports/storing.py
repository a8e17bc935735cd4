"""Applies what a run has staged: documents, rejects, and that it was done, in one commit."""

from collections.abc import Mapping
from typing import Any, Final

import psycopg
from psycopg import sql
from psycopg.types.json import Jsonb

from integration.delivery.policy.failure import Failure, FailureClass
from integration.newness import DOCUMENT, REST
from spark_jobs.imports.parameters import Duplicates, ImportParameters
from spark_jobs.imports.planning import Plan
from spark_jobs.imports.reading import Flaw
from spark_jobs.imports.staging import Stage
from spark_jobs.problems import JobError, unbalanced

TWICE: Final = Flaw("DUPLICATE_ROW", "An earlier row of this import has the same key.")
# The run's row is locked first: of two that apply one run the second finds it done.
_CLAIM: Final = """
SELECT applied, counts FROM integration_bulkrun WHERE id = %s FOR UPDATE
"""
_APPLIED: Final = """
UPDATE integration_bulkrun SET applied = true, counts = %s WHERE id = %s
"""
# Of several rows with one key one counts; of the others each is a reject where that was asked for.
# Of several rows with one key one counts; of the others each is a reject where that was asked for.
_DUPLICATES: Final = """
WITH placed AS (
  SELECT place, row_number() OVER (PARTITION BY key ORDER BY place {way}) AS number
  FROM {documents}
), taken AS (
  DELETE FROM {documents} d USING placed n WHERE d.place = n.place AND n.number > 1
  RETURNING d.place, d.document
), rejected AS (
  INSERT INTO {rejects} (place, file, line, code, text, fingerprint, payload, raw)
  SELECT place, '', 0, %(code)s::text, %(text)s::text, %(cause)s::text,
    convert_to(document::text, 'UTF8'), ''
  FROM taken WHERE %(rejects)s::boolean
)
SELECT count(*) FROM taken
"""
_STORE: Final = (
    """
WITH stored AS (
  INSERT INTO integration_storedobject AS o (structure_id, key, document, xml, sort_version,
    version, arrival_batch, arrival_index, message_id, topic_uuid, partition, "offset", updated_at)
  SELECT s.id, d.key, d.document, '', d.version, 1, %(arrival)s::bigint, d.place,
    %(run)s::text || '~' || d.place, '', NULL, NULL, clock_timestamp()
  FROM {documents} d, integration_objectstructure s WHERE s.name = %(structure)s::text
  ORDER BY d.key COLLATE "C"
  ON CONFLICT (structure_id, key) DO UPDATE SET """  # noqa: S608 - constants
    + DOCUMENT
    + REST
    + """
) SELECT count(*) FROM stored
"""
)
# A reject stands where no record of Kafka can: its topic is the run, its offset the row's place.
_REJECT: Final = """
INSERT INTO integration_messageerror (id, queue_id, topic_uuid, partition, "offset", message_id,
  interface, sender, headers, payload, edited_by, state, failure_class, code, text, detail,
  fingerprint, attempts, retry_no, spent, crashes, carrier, arrival_batch, arrival_index, late,
  apply_as_newest, version, first_failed_at, last_failed_at, ended)
SELECT gen_random_uuid(), q.id, %(run)s::text, 0, r.place, %(run)s::text || '~' || r.place,
  coalesce(v.interface, ''), '',
  jsonb_build_array(
    jsonb_build_array('sluice-run',
      translate(encode(convert_to(%(run)s::text, 'UTF8'), 'base64'), E'\\n', '')),
    jsonb_build_array('sluice-file',
      translate(encode(convert_to(r.file, 'UTF8'), 'base64'), E'\\n', '')),
    jsonb_build_array('sluice-line', encode(convert_to(r.line::text, 'UTF8'), 'base64'))),
  r.payload, '', 'HOLD', 'permanent', r.code, r.text,
  CASE WHEN r.line > 0 THEN 'Line ' || r.line || ' of ' || r.file || E'\\n'
    || r.raw ELSE '' END,
  r.fingerprint, 1, 0, 0, 0, 'row', %(arrival)s::bigint, r.place, false, false, 1,
  clock_timestamp(), clock_timestamp(), ''
FROM {rejects} r, integration_queue q
LEFT JOIN integration_enterpriseservice v ON v.id = q.default_service_id
WHERE q.id = %(queue)s::bigint
"""


_COUNTS: Final = (
    "SELECT coalesce(sum(read), 0)::bigint, count(*), coalesce(sum(good), 0)::bigint, "
    "coalesce(sum(bad), 0)::bigint FROM {ranges}"
)
_THERE: Final = "SELECT (SELECT count(*) FROM {documents}), (SELECT count(*) FROM {rejects})"


def apply(
    session: psycopg.Connection[Any], run: str, parameters: ImportParameters, plan: Plan
) -> Mapping[str, int]:
    """Apply the whole run, or find that it was: how many rows were read, sent, rejected, skipped.

    Raises JobError: UNKNOWN_RUN, NOT_STAGED, UNKNOWN_STRUCTURE, UNKNOWN_QUEUE.
    """
    tables = Stage(run)
    with session.transaction():
        claimed = session.execute(_CLAIM, [run]).fetchone()
        if claimed is None:
            raise _unknown("run", run, "UNKNOWN_RUN")
        is_applied, counts = claimed
        if is_applied:
            tables.drop(session)
            return dict(counts)
        _exist(session, parameters)
        (read, ranges, good, bad) = session.execute(tables.sql(_COUNTS)).fetchone() or (0, 0, 0, 0)
        if ranges != len(plan.ranges):
            raise JobError(
                "NOT_STAGED",
                f"{ranges:,} of {len(plan.ranges):,} ranges are staged.",
                "Start the run again: it goes on where it stopped.",
            )
        there = session.execute(tables.sql(_THERE)).fetchone()
        counts = {"read": read, **_write(session, tables, run, parameters)}
        if there != (good, bad) or read != counts["sent"] + counts["rejected"] + counts["skipped"]:
            raise unbalanced(counts)
        session.execute(_APPLIED, [Jsonb(counts), run])
        tables.drop(session)
    return counts


def applied(session: psycopg.Connection[Any], run: str) -> Mapping[str, int] | None:
    """What the run came to if it was applied already, else None."""
    found = session.execute(
        "SELECT counts FROM integration_bulkrun WHERE id = %s AND applied", [run]
    ).fetchone()
    return None if found is None else dict(found[0])


def _write(
    session: psycopg.Connection[Any], tables: Stage, run: str, parameters: ImportParameters
) -> Mapping[str, int]:
    is_rejected = parameters.duplicates is Duplicates.REJECT
    way = sql.SQL("DESC" if parameters.duplicates is Duplicates.LAST else "ASC")
    said = {
        "run": run,
        "arrival": parameters.arrival,
        "structure": parameters.structure.name,
        "queue": parameters.rejects_queue,
        "rejects": is_rejected,
        "code": TWICE.code,
        "text": TWICE.text,
        "cause": Failure(FailureClass.PERMANENT, *TWICE).fingerprint,
    }
    session.execute(tables.sql("ANALYZE {documents}"))
    twice = _count(session, tables.sql(_DUPLICATES, way=way), said)
    left = _count(session, tables.sql("SELECT count(*) FROM {documents}"), said)
    stored = _count(session, tables.sql(_STORE), said)
    rejected = session.execute(tables.sql(_REJECT), said).rowcount
    return {
        "sent": stored,
        "rejected": rejected,
        "skipped": (0 if is_rejected else twice) + left - stored,
    }


def _count(
    session: psycopg.Connection[Any], statement: sql.Composed, said: Mapping[str, Any]
) -> int:
    row = session.execute(statement, said).fetchone()
    return int(row[0]) if row else 0


def _exist(session: psycopg.Connection[Any], parameters: ImportParameters) -> None:
    name, queue = parameters.structure.name, parameters.rejects_queue
    structure = session.execute(
        "SELECT key_paths, version_path FROM integration_objectstructure WHERE name = %s", [name]
    ).fetchone()
    if structure is None:
        raise _unknown("object structure", name, "UNKNOWN_STRUCTURE")
    said = parameters.structure
    if (tuple(structure[0]), structure[1]) != (said.key_paths, said.version_path):
        raise JobError(
            "STRUCTURE_CHANGED",
            f"{name} has other key paths or another version path than when the run was asked for.",
            "Start a new run: by the old paths documents would be stored under other keys.",
        )
    known = session.execute("SELECT 1 FROM integration_queue WHERE id = %s", [queue]).fetchone()
    if known is None:
        raise _unknown("queue", str(queue), "UNKNOWN_QUEUE")


def _unknown(what: str, name: str, code: str) -> JobError:
    return JobError(
        code, f"There is no {what} {name} any more.", "Start a new run with one that is there."
    )
