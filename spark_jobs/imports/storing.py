"""Applies what a run has staged: documents, and rejects, in the commit that ends the run.

Of several rows with one key one counts: which, and what becomes of the others, is here, too.
"""

from collections.abc import Mapping
from typing import Final, LiteralString, NamedTuple

from psycopg import sql

from integration.documents.refusals import permanent
from integration.newness import DOCUMENT, REST
from spark_jobs.errors import JobError, gone, not_staged, unbalanced
from spark_jobs.imports.parameters import Duplicates, Format, ImportParameters, Structure
from spark_jobs.imports.planning import Plan
from spark_jobs.imports.staging import Stage, Sums
from spark_jobs.staging import PLACES_BITS, Session

# Of several rows with one key the first in the order counts. Keys go in sorted, as messages' do.
# Text of XML with a document beside it deletes: the row that is left has neither.
_STORE: Final = (
    """
WITH stored AS (
  INSERT INTO integration_storedobject AS o (structure_id, key, document, xml, sort_version,
    version, arrival_batch, arrival_index, message_id, topic_uuid, partition, "offset", updated_at)
  SELECT (SELECT id FROM integration_objectstructure WHERE name = %(structure)s::text),
    n.key, CASE WHEN n.xml = '' THEN n.document END,
    CASE WHEN n.document IS NULL THEN n.xml ELSE '' END, n.version, 1, %(arrival)s::bigint, n.place,
    %(run)s::text || '~' || n.place, '', NULL, NULL, clock_timestamp()
  FROM (
    SELECT DISTINCT ON (d.key COLLATE "C") d.* FROM {documents} d
    ORDER BY d.key COLLATE "C", {order}
  ) n
  ON CONFLICT (structure_id, key) DO UPDATE SET """
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
  %(unit)s::text || ' ' || r.line || ' of ' || r.file || E'\\n' || r.raw,
  r.fingerprint, 1, 0, 0, 0, 'row', %(arrival)s::bigint, r.place, false, false, 1,
  clock_timestamp(), clock_timestamp(), ''
FROM {rejects} r, integration_queue q
LEFT JOIN integration_enterpriseservice v ON v.id = q.default_service_id
WHERE q.id = %(queue)s::bigint
"""
# Over the staged documents `d` of one key: the first in this order counts.
_ORDER: Final[Mapping[Duplicates, LiteralString]] = {
    Duplicates.LAST: "d.place DESC",
    Duplicates.FIRST: "d.place",
    Duplicates.NEWEST: "d.version DESC NULLS LAST, d.place DESC",
    Duplicates.REJECT: "d.place",
}
# Most keys are there once; the others alone are sorted.
_TAKE_OUT: Final = """
WITH twice AS (
  SELECT key FROM {documents} GROUP BY key HAVING count(*) > 1
), placed AS (
  SELECT d.place, row_number() OVER (PARTITION BY d.key ORDER BY {order}) AS number
  FROM {documents} d JOIN twice USING (key)
), taken AS (
  DELETE FROM {documents} d USING placed n WHERE d.place = n.place AND n.number > 1
  RETURNING d.place, d.line, coalesce(nullif(d.xml, ''), d.document::text) AS document
), rejected AS (
  INSERT INTO {rejects} (place, file, line, code, text, fingerprint, payload, raw)
  SELECT t.place, r.file, t.line, %(code)s::text, %(text)s::text, %(cause)s::text,
    convert_to(t.document, 'UTF8'), ''
  FROM taken t JOIN {ranges} r ON r.number = t.place >> %(bits)s
  WHERE %(rejects)s::boolean
)
SELECT count(*) FROM taken
"""
_REJECTS: Final = "SELECT count(*) FROM {rejects}"
# What would be rejected by cause, the most frequent first, each with the first of its rows.
_CAUSES: Final = """
WITH causes AS (
  SELECT code, count(*) AS rows, min(place) AS first FROM {rejects}
  GROUP BY code ORDER BY rows DESC, code LIMIT 5
)
SELECT c.code, c.rows, r.line, r.file FROM causes c JOIN {rejects} r ON r.place = c.first
ORDER BY c.rows DESC, c.code
"""
_TWICE: Final = permanent("An earlier row of this import has the same key.", "DUPLICATE_ROW")
_THERE: Final = "SELECT (SELECT count(*) FROM {documents}), (SELECT count(*) FROM {rejects})"
# More than this is a mistake of the file or the map, and not of the rows.
MOST_REJECTS: Final = 100_000
# A run's documents are sorted once; the default would do it on the disk in hundreds of pieces.
SORTING: Final = "SET LOCAL work_mem = '128MB'"


class Staged(NamedTuple):
    """The sums of the ranges, and what is in the tables by now."""

    sums: Sums
    documents: int
    rejects: int

    def unbalanced(self) -> JobError:
        counts = {"documents": self.documents, "rejects": self.rejects}
        return unbalanced({**self.sums._asdict(), **counts})


def complete(session: Session, tables: Stage, plan: Plan) -> Staged:
    """Return what is staged, if all of it is. Raises JobError NOT_STAGED."""
    sums = tables.sums(session)
    if sums.ranges != len(plan.ranges):
        raise not_staged(f"{sums.ranges:,} of {len(plan.ranges):,} ranges are staged.")
    return Staged(sums, *(session.execute(tables.sql(_THERE)).fetchone() or (0, 0)))


def take_out(session: Session, tables: Stage, parameters: ImportParameters) -> int:
    """Take rows out of the stage that have a key for which another row counts.

    They go to the rejects if that was asked for. Returns their number; none when done again.
    """
    session.execute(tables.sql("ANALYZE {documents}"))
    values = {
        "rejects": parameters.duplicates is Duplicates.REJECT,
        "bits": PLACES_BITS,
        "code": _TWICE.code,
        "text": _TWICE.text,
        "cause": _TWICE.fingerprint,
    }
    statement = tables.sql(_TAKE_OUT, order=sql.SQL(_ORDER[parameters.duplicates]))
    row = session.execute(statement, values).fetchone()
    return int(row[0]) if row else 0


def refuse_many(session: Session, tables: Stage, parameters: ImportParameters) -> None:
    """Refuse to go on with more rejects than anybody looks at. Raises JobError TOO_MANY_REJECTS.

    Each would be a failure with its payload, written in the commit that ends the run.
    """
    (rejects,) = session.execute(tables.sql(_REJECTS)).fetchone() or (0,)
    if rejects <= MOST_REJECTS:
        return
    place = _unit(parameters).lower()
    causes = ", ".join(
        f"{code} {rows:,} (first on {place} {line:,} of {file})"
        for code, rows, line, file in session.execute(tables.sql(_CAUSES))
    )
    raise JobError(
        "TOO_MANY_REJECTS",
        f"{rejects:,} rows would be rejected, and a run may have {MOST_REJECTS:,} of them: "
        f"{causes}.",
        "Correct the files, their encoding or the map of the columns, and start a new run: "
        "nothing of this one counts.",
    )


def finish(
    session: Session, tables: Stage, parameters: ImportParameters, plan: Plan
) -> Mapping[str, int]:
    """Store the documents unless they were sent, and the rejects, in the caller's transaction.

    Raises JobError: NOT_STAGED, UNKNOWN_STRUCTURE, STRUCTURE_CHANGED, UNKNOWN_QUEUE, UNBALANCED,
    TOO_MANY_REJECTS.
    """
    _exist(session, parameters)
    session.execute(SORTING)
    staged = _whole(session, tables, parameters, plan)
    is_rejected = parameters.duplicates is Duplicates.REJECT
    if parameters.target is not None:
        good, sent = staged.sums.good, staged.sums.sent
    else:
        good = staged.documents
        if is_rejected:
            good -= take_out(session, tables, parameters)
        refuse_many(session, tables, parameters)
        sent = _store(session, tables, parameters)
    skipped = 0 if parameters.target is not None and is_rejected else good - sent
    rejected = _reject(session, tables, parameters)
    return {"read": staged.sums.read, "sent": sent, "rejected": rejected, "skipped": skipped}


def _whole(session: Session, tables: Stage, parameters: ImportParameters, plan: Plan) -> Staged:
    """Hold what is staged against what the ranges came to.

    Raises JobError NOT_STAGED, UNBALANCED.
    """
    staged = complete(session, tables, plan)
    sums, taken = staged.sums, 0
    if parameters.target is not None:
        # What does not count was taken out before the rest was sent.
        taken = sums.good - staged.documents
        is_sent = (sums.ranges_sent, sums.sent) == (sums.ranges, staged.documents)
        if taken < 0 or not is_sent:
            raise staged.unbalanced()
    bad = sums.bad + (taken if parameters.duplicates is Duplicates.REJECT else 0)
    if (staged.documents + taken, staged.rejects) != (sums.good, bad):
        raise staged.unbalanced()
    return staged


def _store(session: Session, tables: Stage, parameters: ImportParameters) -> int:
    assert parameters.structure is not None  # noqa: S101 - checked with the parameters
    values = {
        "run": tables.run,
        "arrival": parameters.arrival,
        "structure": parameters.structure.name,
    }
    statement = tables.sql(_STORE, order=sql.SQL(_ORDER[parameters.duplicates]))
    row = session.execute(statement, values).fetchone()
    return int(row[0]) if row else 0


def _reject(session: Session, tables: Stage, parameters: ImportParameters) -> int:
    values = {
        "run": tables.run,
        "arrival": parameters.arrival,
        "queue": parameters.rejects_queue,
        "unit": _unit(parameters),
    }
    return session.execute(tables.sql(_REJECT), values).rowcount


def _unit(parameters: ImportParameters) -> str:
    return "Row" if parameters.format is Format.PARQUET else "Line"


def _exist(session: Session, parameters: ImportParameters) -> None:
    if parameters.structure is not None and parameters.target is None:
        same_structure(session, parameters.structure)
    queue = parameters.rejects_queue
    row = session.execute("SELECT 1 FROM integration_queue WHERE id = %s", [queue]).fetchone()
    if row is None:
        raise gone("UNKNOWN_QUEUE", f"queue {queue}")


def same_structure(session: Session, structure: Structure) -> int:
    """The number of a structure that is as it was when the run was asked for.

    Raises JobError UNKNOWN_STRUCTURE, STRUCTURE_CHANGED.
    """
    row = session.execute(
        "SELECT id, key_paths, version_path FROM integration_objectstructure WHERE name = %s",
        [structure.name],
    ).fetchone()
    if row is None:
        raise gone("UNKNOWN_STRUCTURE", f"object structure {structure.name}")
    number, key_paths, version_path = row
    if (tuple(key_paths), version_path) != (structure.key_paths, structure.version_path):
        raise JobError(
            "STRUCTURE_CHANGED",
            f"{structure.name} has other key paths or another version path than when the run was "
            "asked for.",
            "Start a new run: by the old paths documents would be stored under other keys.",
        )
    return int(number)
