"""Gives staged messages back to their queue: as released rows of the error table.

The engine takes such rows beside what it reads, in the order of their arrival and under the rules
of every released failure; its position stays where it is. Why so: decision 20.
"""

from typing import Final, LiteralString

from psycopg import sql

from integration.policy.failure import Failure, FailureClass
from integration.values import LATEST_MS
from spark_jobs.errors import JobError, gone, other_topic
from spark_jobs.fencing import Outcome
from spark_jobs.replay.parameters import ReplayParameters
from spark_jobs.replay.staging import Share, Stage, whole
from spark_jobs.staging import Session

GIVEN_BACK: Final = Failure(
    FailureClass.TRANSIENT, "REPLAYED", "A replay gave the message back to its queue."
)
# The batch `b` that applied what is remembered as `s`: both are written in one transaction, the id
# a moment before.
APPLIED_IN: Final = """s.seen_at BETWEEN b.committed_at - interval '1 minute'
        AND coalesce(b.ended_at, b.committed_at)"""
# What a partition `p` remembers of a message `m` of its own.
REMEMBERED: Final = """integration_seenmessage s ON s.queue_id = p.queue_id
    AND s.message_id = m.message_id AND s."offset" = m."offset" AND s.partition = m.partition
    AND s.topic_uuid IN ('', p.topic_uuid)"""
# The largest number of the batches that passed an offset is that of the last one, by which what
# is stored is compared. A failure has its own. A queue that drops repeats remembers when it applied
# the message: a later number is that of a batch which dropped it, and would put the old content
# above what had come between; so would that of a repeat, which was never applied. Where the batch
# is not found by that time, or the time is forgotten, the lowest number is on the safe side.
_NUMBERED: Final = (
    """
CREATE TEMPORARY TABLE replayed ON COMMIT DROP AS
WITH numbers AS (
  SELECT m.partition, m."offset", coalesce(min(b.number) FILTER (WHERE """
    + APPLIED_IN
    + """),
    CASE WHEN q.dedupe OR s.id IS NOT NULL THEN min(b.number) ELSE max(b.number) END) AS number
  FROM integration_queuepartition p
  JOIN integration_queue q ON q.id = p.queue_id
  JOIN integration_batchlog b ON b.partition_id = p.id AND b.topic_uuid = p.topic_uuid
  JOIN {messages} m ON m.partition = p.partition
    AND m."offset" BETWEEN b.from_offset AND b.to_offset
  LEFT JOIN """
    + REMEMBERED
    + """
  WHERE p.queue_id = %(queue)s AND p.topic_uuid = %(uuid)s
  GROUP BY s.id, q.dedupe, m.partition, m."offset"
)
SELECT m.partition, m."offset",
  coalesce(e.arrival_batch, n.number) AS batch, coalesce(e.arrival_index, m."offset") AS place,
  CASE WHEN p.next_offset IS NULL OR (m."offset" >= p.next_offset AND NOT
      (m."offset" < coalesce(p.open_until, 0) AND m."offset" = ANY(p.done_offsets))) THEN 'to_come'
    WHEN e.state = 'DELETED' THEN 'deleted'
    WHEN e.state <> 'RESOLVED' THEN 'open'
    WHEN e.id IS NULL AND s.id IS NOT NULL THEN 'duplicate' ELSE '' END AS why
FROM {messages} m
JOIN integration_queue q ON q.id = %(queue)s
LEFT JOIN integration_queuepartition p ON p.queue_id = %(queue)s AND p.topic_uuid = %(uuid)s
  AND p.partition = m.partition
LEFT JOIN numbers n ON n.partition = m.partition AND n."offset" = m."offset"
LEFT JOIN integration_messageerror e ON e.queue_id = %(queue)s AND e.topic_uuid = %(uuid)s
  AND e.partition = m.partition AND e."offset" = m."offset"
LEFT JOIN integration_seenmessage s ON q.dedupe AND s.queue_id = q.id
  AND s.message_id = m.message_id
  AND (s.topic_uuid <> %(uuid)s OR s.partition <> m.partition OR s."offset" < m."offset")
"""
)
_UNNUMBERED: Final = """
SELECT count(*), min(partition), (array_agg("offset" ORDER BY partition, "offset"))[1]
FROM {table} WHERE why = '' AND batch IS NULL
"""
_GIVE: Final = """
WITH given AS (
  INSERT INTO integration_messageerror AS e (id, queue_id, topic_uuid, partition, "offset",
    kafka_timestamp, message_id, interface, sender, key, headers, payload, edited_by, state,
    failure_class, code, text, detail, fingerprint, attempts, retry_no, spent, crashes,
    not_before, carrier, arrival_batch, arrival_index, late, apply_as_newest, version,
    first_failed_at, last_failed_at, ended, order_key)
  SELECT gen_random_uuid(), q.id, %(uuid)s::text, m.partition, m."offset",
    CASE WHEN m.at_ms BETWEEN 0 AND %(latest_ms)s THEN to_timestamp(m.at_ms / 1000.0) END,
    m.message_id, m.interface, '', m.key, m.headers, m.payload, '',
    'READY', %(kind)s::text, %(code)s::text, %(text)s::text, '', %(cause)s::text, 0, 0, 0, 0,
    clock_timestamp(), 'row', coalesce(r.batch, %(arrival)s::bigint), r.place,
    NOT %(newest)s::boolean, %(newest)s::boolean, 1, clock_timestamp(), clock_timestamp(), '',
    decode(md5(m.order_value), 'hex')
  FROM {messages} m JOIN replayed r ON r.partition = m.partition AND r."offset" = m."offset"
  JOIN integration_queue q ON q.id = %(queue)s
  WHERE r.why = ''
  ORDER BY r.batch, r.place
  ON CONFLICT (queue_id, topic_uuid, partition, "offset") DO UPDATE SET
    state = 'READY', spent = 0, crashes = 0, not_before = clock_timestamp(), carrier = 'row',
    late = excluded.late, apply_as_newest = excluded.apply_as_newest, closed_at = NULL, ended = '',
    newest_batch = NULL, newest_index = NULL,
    parked_at = NULL, copied_at = NULL, copy_offset = NULL,
    order_key = coalesce(e.order_key, excluded.order_key),
    version = e.version + 1
  WHERE e.state = 'RESOLVED'
  RETURNING e.id, e.version
), noted AS (
  INSERT INTO integration_errorchange (error_id, at, actor, action, from_state, to_state, reason)
  SELECT g.id, clock_timestamp(), r.actor, 'replay',
    CASE WHEN g.version > 1 THEN 'RESOLVED' ELSE '' END, 'READY',
    coalesce(nullif(%(reason)s::text, ''), r.reason)
  FROM given g, integration_bulkrun r WHERE r.id = %(run)s::uuid
  RETURNING 1
)
SELECT count(*) FROM noted
"""
_THERE: Final = """
SELECT (SELECT count(*) FROM integration_queuepartition p
  WHERE p.queue_id = q.id AND p.topic_uuid <> %(uuid)s)
FROM integration_queue q WHERE q.id = %(queue)s AND q.direction = 'inbound'
"""
_WHY: Final = "SELECT why, count(*) FROM {table} WHERE why <> '' GROUP BY why"


def give_back(session: Session, tables: Stage, parameters: ReplayParameters, uuid: str) -> Outcome:
    """Write the rows, in the caller's transaction.

    Raises JobError UNKNOWN_QUEUE, OTHER_TOPIC, NO_ARRIVAL_NUMBERS, NOT_STAGED.
    """
    _exists(session, parameters.queue, uuid)
    values = {
        "run": tables.run,
        "queue": parameters.queue,
        "uuid": uuid,
        "arrival": parameters.arrival,
        "newest": bool(parameters.apply_as_newest),
        "reason": parameters.apply_as_newest,
        "kind": GIVEN_BACK.kind,
        "latest_ms": LATEST_MS,
        "code": GIVEN_BACK.code,
        "text": GIVEN_BACK.text,
        "cause": GIVEN_BACK.fingerprint,
    }
    session.execute(tables.sql("ANALYZE {messages}"))
    session.execute(tables.sql(_NUMBERED), values)
    session.execute("ANALYZE replayed")
    if not parameters.apply_as_newest:
        check_numbers(session, "replayed")
    _, share = tables.staged(session)
    whole(session, "replayed", share.chosen)
    (count,) = session.execute(tables.sql(_GIVE), values).fetchone() or (0,)
    # Somebody may have opened one of the rows in this very moment.
    reasons = left_out(session, "replayed", share, (share.chosen - count, "open"))
    counts = {"read": share.read, "sent": count, "rejected": 0, "skipped": share.read - count}
    return counts, {"left_out": reasons}


def _exists(session: Session, queue: int, uuid: str) -> None:
    row = session.execute(_THERE, {"queue": queue, "uuid": uuid}).fetchone()
    if row is None:
        raise gone("UNKNOWN_QUEUE", f"inbound queue {queue}")
    if row[0]:
        raise other_topic()


def check_numbers(session: Session, table: LiteralString) -> None:
    """Raise JobError NO_ARRIVAL_NUMBERS where nobody knows any more when messages arrived."""
    row = session.execute(sql.SQL(_UNNUMBERED).format(table=sql.Identifier(table))).fetchone()
    count, partition, offset = row or (0, 0, 0)
    if count:
        raise JobError(
            "NO_ARRIVAL_NUMBERS",
            f"Of {count:,} messages, the first at offset {offset:,} of partition {partition}, it "
            "is not known when they arrived: they might be older than what is stored.",
            "Choose a range without them, or have all of them applied as the newest, with a "
            "reason.",
        )


def left_out(
    session: Session, table: LiteralString, share: Share, left: tuple[int, str]
) -> dict[str, int]:
    """Count messages left out by reason; `left` are all, and the reason of the table's rest."""
    count, otherwise = left
    whys = session.execute(sql.SQL(_WHY).format(table=sql.Identifier(table)))
    counts = {why: number for why, number in whys if why != otherwise}
    counts[otherwise] = count - sum(counts.values())
    counts["not_chosen"] = share.read - share.chosen
    return {why: number for why, number in counts.items() if number}
