"""Applies what a run has staged: documents, rejects, and that it was done, in one commit."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import psycopg
from psycopg.types.json import Jsonb

from integration.newness import DOCUMENT, REST
from spark_jobs.imports.duplicates import order, take_out
from spark_jobs.imports.owning import Owned, claimed
from spark_jobs.imports.parameters import Duplicates, Format, ImportParameters, Structure
from spark_jobs.imports.planning import Plan
from spark_jobs.imports.staging import Stage
from spark_jobs.problems import JobError, unbalanced

_APPLIED: Final = """
UPDATE integration_bulkrun SET applied = true, counts = %s WHERE id = %s
"""
# Of several rows with one key the first in the order counts. Keys go in sorted, as messages' do.
_STORE: Final = (
    """
WITH stored AS (
  INSERT INTO integration_storedobject AS o (structure_id, key, document, xml, sort_version,
    version, arrival_batch, arrival_index, message_id, topic_uuid, partition, "offset", updated_at)
  SELECT (SELECT id FROM integration_objectstructure WHERE name = %(structure)s::text),
    n.key, n.document, n.xml, n.version, 1, %(arrival)s::bigint, n.place,
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
_SUMS: Final = """
SELECT count(*), coalesce(sum(read), 0)::bigint, coalesce(sum(good), 0)::bigint,
  coalesce(sum(bad), 0)::bigint, count(sent), coalesce(sum(sent), 0)::bigint FROM {ranges}
"""
_THERE: Final = "SELECT (SELECT count(*) FROM {documents}), (SELECT count(*) FROM {rejects})"
# A run's documents are sorted once; the default would do it on the disk in hundreds of pieces.
SORTING: Final = "SET LOCAL work_mem = '128MB'"


class _Staged(NamedTuple):
    """What the stage has: ranges, what they came to, and what is there by now."""

    ranges: int
    read: int
    good: int
    bad: int
    ranges_sent: int
    sent: int
    documents: int
    rejects: int


def apply(
    session: psycopg.Connection[Any], owned: Owned, parameters: ImportParameters, plan: Plan
) -> Mapping[str, int]:
    """Apply the whole run, or find that it was: how many rows were read, sent, rejected, skipped.

    Raises JobError: UNKNOWN_RUN, RUN_TAKEN, NOT_STAGED, UNKNOWN_STRUCTURE, STRUCTURE_CHANGED,
    UNKNOWN_QUEUE, UNBALANCED.
    """
    tables = Stage(owned.run)
    with session.transaction():
        before = claimed(session, owned)
        if before is not None:
            tables.drop(session)
            return before
        _exist(session, parameters)
        session.execute(SORTING)
        staged = _staged(session, tables, parameters, plan)
        ends = _stored if parameters.target is None else _sent
        counts = {"read": staged.read, **ends(session, owned, parameters, staged)}
        if staged.read != counts["sent"] + counts["rejected"] + counts["skipped"]:
            raise unbalanced(counts)
        session.execute(_APPLIED, [Jsonb(counts), owned.run])
        tables.drop(session)
    return counts


def complete(session: psycopg.Connection[Any], tables: Stage, plan: Plan) -> _Staged:
    """What is staged, if all of it is. Raises JobError NOT_STAGED."""
    sums = session.execute(tables.sql(_SUMS)).fetchone() or (0, 0, 0, 0, 0, 0)
    there = session.execute(tables.sql(_THERE)).fetchone() or (0, 0)
    staged = _Staged(*sums, *there)
    if staged.ranges != len(plan.ranges):
        raise JobError(
            "NOT_STAGED",
            f"{staged.ranges:,} of {len(plan.ranges):,} ranges are staged.",
            "Start the run again: it goes on where it stopped.",
        )
    return staged


def _staged(
    session: psycopg.Connection[Any], tables: Stage, parameters: ImportParameters, plan: Plan
) -> _Staged:
    """The same, held against what the ranges came to. Raises JobError NOT_STAGED, UNBALANCED."""
    staged = complete(session, tables, plan)
    taken = 0
    if parameters.target is not None:
        # What does not count was taken out before the rest was sent.
        taken = staged.good - staged.documents
        is_sent = (staged.ranges_sent, staged.sent) == (staged.ranges, staged.documents)
        if taken < 0 or not is_sent:
            raise unbalanced(staged._asdict())
    bad = staged.bad + (taken if parameters.duplicates is Duplicates.REJECT else 0)
    if (staged.documents + taken, staged.rejects) != (staged.good, bad):
        raise unbalanced(staged._asdict())
    return staged


def _stored(
    session: psycopg.Connection[Any], owned: Owned, parameters: ImportParameters, staged: _Staged
) -> Mapping[str, int]:
    assert parameters.structure is not None  # noqa: S101 - checked with the parameters
    tables, good = Stage(owned.run), staged.documents
    if parameters.duplicates is Duplicates.REJECT:
        good -= take_out(session, tables, parameters)
    statement = tables.sql(_STORE, order=order(parameters.duplicates))
    said = {
        "run": owned.run,
        "arrival": parameters.arrival,
        "structure": parameters.structure.name,
    }
    found = session.execute(statement, said).fetchone()
    stored = int(found[0]) if found else 0
    rejected = _rejected(session, tables, owned.run, parameters)
    return {"sent": stored, "rejected": rejected, "skipped": good - stored}


def _sent(
    session: psycopg.Connection[Any], owned: Owned, parameters: ImportParameters, staged: _Staged
) -> Mapping[str, int]:
    is_rejected = parameters.duplicates is Duplicates.REJECT
    return {
        "sent": staged.sent,
        "rejected": _rejected(session, Stage(owned.run), owned.run, parameters),
        "skipped": 0 if is_rejected else staged.good - staged.sent,
    }


def _rejected(
    session: psycopg.Connection[Any], tables: Stage, run: str, parameters: ImportParameters
) -> int:
    said = {
        "run": run,
        "arrival": parameters.arrival,
        "queue": parameters.rejects_queue,
        "unit": "Row" if parameters.format is Format.PARQUET else "Line",
    }
    return session.execute(tables.sql(_REJECT), said).rowcount


def _exist(session: psycopg.Connection[Any], parameters: ImportParameters) -> None:
    if parameters.structure is not None and parameters.target is None:
        _same_structure(session, parameters.structure)
    queue = parameters.rejects_queue
    known = session.execute("SELECT 1 FROM integration_queue WHERE id = %s", [queue]).fetchone()
    if known is None:
        raise _unknown("queue", str(queue), "UNKNOWN_QUEUE")


def _same_structure(session: psycopg.Connection[Any], said: Structure) -> None:
    found = session.execute(
        "SELECT key_paths, version_path FROM integration_objectstructure WHERE name = %s",
        [said.name],
    ).fetchone()
    if found is None:
        raise _unknown("object structure", said.name, "UNKNOWN_STRUCTURE")
    if (tuple(found[0]), found[1]) != (said.key_paths, said.version_path):
        raise JobError(
            "STRUCTURE_CHANGED",
            f"{said.name} has other key paths or another version path than when the run was "
            "asked for.",
            "Start a new run: by the old paths documents would be stored under other keys.",
        )


def _unknown(what: str, name: str, code: str) -> JobError:
    return JobError(
        code, f"There is no {what} {name} any more.", "Start a new run with one that is there."
    )
