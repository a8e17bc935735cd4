"""Rebuilds an empty structure out of staged documents: what messages had made of it by a time."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, cast

from integration import envelope
from integration.documents.refusals import permanent
from integration.documents.structures import Entry, Plan, plan_for
from integration.newness import DOCUMENT, REST
from integration.policy.failure import Failure
from spark_jobs.errors import JobError, other_topic
from spark_jobs.fencing import Outcome
from spark_jobs.imports.parameters import Structure
from spark_jobs.imports.storing import same_structure
from spark_jobs.replay.choosing import Chooser, Chosen, Record
from spark_jobs.replay.giving import APPLIED_IN, REMEMBERED, check_numbers, left_out
from spark_jobs.replay.parameters import ReplayParameters
from spark_jobs.replay.staging import Judged, Stage, Taken, keep_documents, whole
from spark_jobs.staging import Session

SHOWN_REJECTS: Final = 1_000
# Only what was applied by then: in its batch, or by a later try of what had failed. What a person
# has deleted or still holds was never applied; of what a replay gave back its batch tells. Asked
# for as the newest, what has no number counts by Kafka's time. What is remembered tells which batch
# applied it: others tried it before, or dropped it since.
_NUMBERED: Final = (
    """
CREATE TEMPORARY TABLE rebuilt ON COMMIT DROP AS
WITH numbers AS (
  SELECT m.partition, m."offset", count(*) AS batches,
    CASE WHEN s.seen_at > %(until)s::timestamptz THEN NULL
      ELSE coalesce(min(b.number) FILTER (WHERE """
    + APPLIED_IN
    + """), CASE WHEN s.id IS NOT NULL THEN min(b.number) ELSE
        max(b.number) FILTER (WHERE b.committed_at <= %(until)s::timestamptz) END) END AS number
  FROM integration_queuepartition p
  JOIN integration_batchlog b ON b.partition_id = p.id AND b.topic_uuid = p.topic_uuid
  JOIN {documents} m ON m.partition = p.partition
    AND m."offset" BETWEEN b.from_offset AND b.to_offset
  LEFT JOIN """
    + REMEMBERED
    + """
  WHERE p.queue_id = %(queue)s AND p.topic_uuid = %(uuid)s
  GROUP BY s.id, m.partition, m."offset"
), given AS (
  SELECT c.error_id FROM integration_errorchange c
  JOIN integration_messageerror e ON e.id = c.error_id
  WHERE e.queue_id = %(queue)s AND e.topic_uuid = %(uuid)s
    AND c.action = 'replay' AND c.from_state = ''
), tried AS (
  SELECT a.error_id, min(a.at) AS at FROM integration_errorattempt a
  JOIN integration_messageerror e ON e.id = a.error_id
  WHERE e.queue_id = %(queue)s AND e.topic_uuid = %(uuid)s
    AND a.ended IN ('APPLIED', 'SUPERSEDED')
  GROUP BY a.error_id
), failed AS (
  SELECT e.partition, e."offset", e.state, e.arrival_batch, e.arrival_index,
    coalesce(t.at, CASE WHEN e.state = 'RESOLVED' THEN e.closed_at END) AS applied_at,
    EXISTS (SELECT 1 FROM given g WHERE g.error_id = e.id) AS was_given
  FROM integration_messageerror e LEFT JOIN tried t ON t.error_id = e.id
  WHERE e.queue_id = %(queue)s AND e.topic_uuid = %(uuid)s
), judged AS (
  SELECT d.*, p.next_offset IS NULL OR (d."offset" >= p.next_offset AND NOT
      (d."offset" < coalesce(p.open_until, 0) AND d."offset" = ANY(p.done_offsets))) AS is_to_come,
    e.state, e.applied_at, n.batches,
    e.state IS NULL AND EXISTS (SELECT 1 FROM integration_seenmessage s
      JOIN integration_queue q ON q.id = s.queue_id AND q.dedupe
      WHERE s.queue_id = %(queue)s AND s.message_id = d.message_id
        AND (s.topic_uuid NOT IN ('', %(uuid)s) OR s.partition <> d.partition
          OR s."offset" < d."offset")) AS is_repeat,
    coalesce(e.arrival_batch, n.number) AS batch, coalesce(e.arrival_index, d."offset") AS place
  FROM {documents} d
  LEFT JOIN integration_queuepartition p ON p.queue_id = %(queue)s AND p.topic_uuid = %(uuid)s
    AND p.partition = d.partition
  LEFT JOIN numbers n ON n.partition = d.partition AND n."offset" = d."offset"
  LEFT JOIN failed e ON e.partition = d.partition AND e."offset" = d."offset"
    AND NOT (e.was_given AND n.batches IS NOT NULL)
)
SELECT j.partition, j."offset", j.key, j.version, j.document, j.xml, j.message_id,
  coalesce(j.batch, CASE WHEN %(newest)s THEN %(arrival)s::bigint END) AS batch,
  CASE WHEN j.batch IS NULL AND %(newest)s
    THEN row_number() OVER (ORDER BY j.at_ms, j.partition, j."offset") ELSE j.place END AS place,
  CASE WHEN j.is_to_come THEN 'to_come'
    WHEN j.state IS NOT NULL AND j.applied_at IS NULL
      THEN CASE j.state WHEN 'DELETED' THEN 'deleted' ELSE 'open' END
    WHEN j.is_repeat THEN 'duplicate'
    WHEN j.applied_at > %(until)s::timestamptz THEN 'later'
    WHEN j.state IS NULL AND j.batch IS NULL AND j.batches > 0 THEN 'later'
    WHEN j.batch IS NULL AND j.at_ms > 1000 * extract(epoch FROM %(until)s::timestamptz)
      THEN 'later'
    ELSE '' END AS why
FROM judged j
"""
)
# As messages are judged one by one in the order of their arrival: one without a version replaces
# all that came before it; among those behind it the highest version counts, the latest of equals.
_STORE: Final = (
    """
WITH bare AS (
  SELECT key, max(array[batch, place]) AS last FROM rebuilt
  WHERE why = '' AND version IS NULL GROUP BY key
), newest AS (
  SELECT DISTINCT ON (r.key) r.* FROM rebuilt r LEFT JOIN bare b ON b.key = r.key
  WHERE r.why = '' AND (b.last IS NULL OR array[r.batch, r.place] >= b.last)
  ORDER BY r.key, r.version DESC NULLS LAST, r.batch DESC, r.place DESC
), stored AS (
  INSERT INTO integration_storedobject AS o (structure_id, key, document, xml, sort_version,
    version, arrival_batch, arrival_index, message_id, topic_uuid, partition, "offset", updated_at)
  SELECT %(structure)s::bigint, n.key, n.document, n.xml, n.version, 1, n.batch, n.place,
    n.message_id, %(uuid)s::text, n.partition, n."offset", clock_timestamp()
  FROM newest n ORDER BY n.key COLLATE "C"
  ON CONFLICT (structure_id, key) DO UPDATE SET """
    + DOCUMENT
    + REST
    + """
) SELECT count(*) FROM stored
"""
)
_REJECTS: Final = """
SELECT partition, "offset", code, text FROM {rejects} ORDER BY partition, "offset" LIMIT %s
"""
# What a person had made of a failed message counts if it was tried since. What a replay gave back
# had been applied as it came.
_EDITED: Final = """
SELECT e."offset", e.edited_payload FROM integration_messageerror e
WHERE e.queue_id = %s AND e.topic_uuid = %s AND e.partition = %s AND e."offset" BETWEEN %s AND %s
  AND e.edited_payload IS NOT NULL
  AND EXISTS (SELECT 1 FROM integration_errorattempt a WHERE a.error_id = e.id
    AND a.at >= e.edited_at AND a.ended IN ('APPLIED', 'SUPERSEDED'))
  AND NOT EXISTS (SELECT 1 FROM integration_errorchange c WHERE c.error_id = e.id
    AND c.action = 'replay' AND c.from_state = '')
"""


class Readable(NamedTuple):
    """The part of a message that a structure's plan looks at."""

    body: object
    key: bytes | None
    text: str | bytes


class Judge(NamedTuple):
    """Makes documents of chosen messages, each with the payload that was applied."""

    parameters: ReplayParameters
    uuid: str
    chooser: Chooser

    def choose(self, session: Session, lot: Sequence[Record]) -> list[tuple[Record, Chosen | None]]:
        """A Choose: where a person had corrected a failed message, that payload was applied."""
        place = [self.parameters.queue, self.uuid, lot[0].partition]
        rows = session.execute(_EDITED, [*place, lot[0].offset, lot[-1].offset])
        edited = {offset: bytes(value) for offset, value in rows}
        return [(record, self.chooser.chosen(record, edited.get(record.offset))) for record in lot]

    def keep(self, session: Session, tables: Stage, lot: Sequence[Taken]) -> int:
        """A Take."""
        plan = plan_for(structure_of(self.parameters))
        judged: list[Judged] = [
            (record, message, entry_of(plan, message))
            for record, message in lot
            if message is not None
        ]
        return keep_documents(session, tables, judged)


def structure_of(parameters: ReplayParameters) -> Structure:
    assert parameters.structure is not None  # noqa: S101 - checked with the parameters
    return parameters.structure


def entry_of(plan: Plan, message: Chosen) -> Entry | Failure:
    """The document, or why there is none."""
    body = message.body
    if isinstance(body, envelope.Flaw):
        return permanent(f"{body.message} {body.hint}", body.code)
    try:
        return plan.entry(cast("Any", Readable(body, message.record.key, message.text)))
    except Exception as e:  # noqa: BLE001 - whatever a schema stumbles over costs its message
        return permanent(f"The structure cannot judge it: {type(e).__name__}.", "UNJUDGED")


def rebuild(session: Session, tables: Stage, parameters: ReplayParameters, uuid: str) -> Outcome:
    """Store what the structure had, in the caller's transaction.

    Raises JobError UNKNOWN_STRUCTURE, STRUCTURE_CHANGED, STRUCTURE_NOT_EMPTY, OTHER_TOPIC,
    NO_ARRIVAL_NUMBERS, NOT_STAGED.
    """
    values = {
        "queue": parameters.queue,
        "uuid": uuid,
        "structure": empty_structure(session, structure_of(parameters)),
        "arrival": parameters.arrival,
        "newest": bool(parameters.apply_as_newest),
        "until": parameters.until or "infinity",
    }
    if session.execute(
        "SELECT 1 FROM integration_queuepartition WHERE queue_id = %s AND topic_uuid <> %s",
        [parameters.queue, uuid],
    ).fetchone():
        raise other_topic()
    session.execute(tables.sql("ANALYZE {documents}"))
    session.execute(tables.sql(_NUMBERED), values)
    check_numbers(session, "rebuilt")
    _, share = tables.staged(session)
    whole(session, "rebuilt", share.chosen - share.rejected)
    (stored,) = session.execute(_STORE, values).fetchone() or (0,)
    left = share.chosen - share.rejected - stored
    facts = {
        "left_out": left_out(session, "rebuilt", share, (left, "superseded")),
        "rejects": [
            dict(zip(("partition", "offset", "code", "text"), row, strict=True))
            for row in session.execute(tables.sql(_REJECTS), [SHOWN_REJECTS])
        ],
    }
    counts = {
        "read": share.read,
        "sent": stored,
        "rejected": share.rejected,
        "skipped": share.read - stored - share.rejected,
    }
    return counts, facts


def empty_structure(session: Session, structure: Structure) -> int:
    """The number of the structure.

    Raises JobError UNKNOWN_STRUCTURE, STRUCTURE_CHANGED, STRUCTURE_NOT_EMPTY.
    """
    number = same_structure(session, structure)
    stored = "SELECT 1 FROM integration_storedobject WHERE structure_id = %s LIMIT 1"
    if session.execute(stored, [number]).fetchone():
        raise JobError(
            "STRUCTURE_NOT_EMPTY",
            f"{structure.name} has documents already: what is rebuilt would mix with them.",
            "Make a structure of its own for it, with the same paths.",
        )
    return number
