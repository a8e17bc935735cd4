"""Taking a partition: its epoch, what its last owner died on, and the lease, in SQL."""

from typing import Final

from integration.policy.states import OPEN_SQL
from integration.store import locks, rescues, rows


def _is_ahead(offset: str, receipt: str) -> str:
    """SQL over a partition `p`: whether a suspect that had this offset may still come.

    A JMS broker sends it under another one: among as many messages as isolated runs look for it.
    """
    return f"""{offset} >= p.next_offset - CASE WHEN {receipt} IS NULL THEN 0
    ELSE (SELECT batch_size FROM integration_queue WHERE id = p.queue_id) END"""


_SUSPECT_IS_AHEAD: Final = _is_ahead("p.suspect_offset", "p.suspect_receipt")
# What a run died on is remembered until it is through: runs that end in good order before they have
# come to it, because another queue waits, have proved nothing. Side by side, others go on while it
# is in work: until the batch is through, the position tells nothing.
# A suspect offset counts a crash unless it was a marked row that was in work when the owner died.
# It hung when its owner had said so, or, as a call that lets no thread run can say nothing, when
# nobody found the end sooner after the marker than a process can be ended for it.
# Whoever gives a partition up unlocks it before that is committed: the lease is waited for, or it
# would look as if its owner had died. One statement takes over and writes the new lease, so that no
# death is counted twice.
TAKE: Final = f"""
WITH lease AS MATERIALIZED (
  SELECT * FROM integration_partitionlease WHERE partition_id = %(id)s FOR UPDATE),
taken AS (UPDATE integration_queuepartition p SET epoch = p.epoch + 1,
  unclean_ends = CASE
    WHEN p.unclean_offset = p.next_offset
      OR (p.next_offset < p.open_until AND p.unclean_offset >= p.open_from)
      THEN p.unclean_ends + died.unclean::int
    WHEN died.unclean THEN 1 ELSE 0 END,
  unclean_offset = p.next_offset,
  rows_alone = CASE WHEN died.unclean THEN 0 ELSE p.rows_alone END,
  suspect_offset = CASE WHEN died.unclean
    OR (p.suspect_crashes > 0 AND {_SUSPECT_IS_AHEAD}) THEN p.suspect_offset END,
  suspect_crashes = CASE
    WHEN NOT died.unclean THEN
      CASE WHEN {_SUSPECT_IS_AHEAD} THEN p.suspect_crashes ELSE 0 END
    WHEN p.suspect_offset IS NULL OR NOT died.has_marked
      OR EXISTS (SELECT 1 FROM integration_messageerror e
      WHERE e.queue_id = p.queue_id AND e.state = 'PROCESSING' AND e.epoch = p.epoch
      AND e.partition = p.partition) THEN p.suspect_crashes
    ELSE p.suspect_crashes + 1 END,
  suspect_hung = died.hung OR (NOT died.unclean AND p.suspect_crashes > 0 AND p.suspect_hung)
FROM (
  SELECT q.id, l.partition_id IS NOT NULL AND l.released_at IS NULL AND NOT l.rescues AS unclean,
    l.released_at IS NULL AND NOT l.rescues AND (coalesce(l.overdue, false) OR coalesce(
      q.marked_at <= clock_timestamp() - %(hangs)s * interval '1 second', false)) AS hung,
    coalesce(q.marked_at >= l.taken_at, false) AS has_marked,
    q.partition = min(q.partition) OVER () AS is_lowest
  FROM integration_queuepartition q LEFT JOIN lease l ON l.partition_id = q.id
  WHERE q.queue_id = %(queue)s
) died
WHERE p.id = died.id AND p.id = %(id)s
RETURNING p.id, p.partition, p.epoch, p.next_offset, p.topic_uuid, p.generation, died.is_lowest,
  p.state, p.state_code, coalesce(p.resume_at <= clock_timestamp(), true) AS due, p.probes,
  p.unclean_ends, p.suspect_offset, p.suspect_receipt, p.suspect_crashes, p.suspect_hung,
  (SELECT max(e."offset") FROM integration_messageerror e
    WHERE e.queue_id = p.queue_id AND e.topic_uuid = p.topic_uuid AND e.partition = p.partition
    AND e."offset" >= p.next_offset) AS failed_until,
  (SELECT max(d."offset") FROM integration_delivery d
    WHERE d.queue_id = p.queue_id AND d.topic_uuid = p.topic_uuid AND d.partition = p.partition
    AND d."offset" >= p.next_offset) AS called_until,
  (SELECT max(e."offset") + 1 FROM integration_messageerror e
    WHERE e.queue_id = p.queue_id AND e.topic_uuid = p.topic_uuid AND e.partition = p.partition
    AND e."offset" >= p.next_offset AND e.first_failed_at < p.moved_at) AS moved_until,
  p.begins_after IS NOT NULL AS waits_for_others, p.lost_from, p.stop_at,
  p.done_offsets, p.open_from, p.open_until, p.open_arrival,
  EXISTS (SELECT 1 FROM integration_messageerror e
    WHERE e.queue_id = p.queue_id AND e.partition = p.partition AND e.parked_at IS NOT NULL
    AND e.state IN {OPEN_SQL}) AND (
    SELECT kind = 'sequential' FROM integration_queue WHERE id = p.queue_id) AS has_parked,
  {rescues.RANGES} AS rescued
),
leased AS (INSERT INTO integration_partitionlease (partition_id, owner, epoch, lock_pid,
  lock_backend_start, batch_pid, batch_backend_start, rescues, group_member, lease_until, taken_at,
  released_at, overdue, working_since)
SELECT id, %(owner)s, epoch, %(lock_pid)s, %(lock_started)s::timestamptz, %(batch_pid)s,
  %(batch_started)s::timestamptz, %(rescues)s, %(member)s,
  clock_timestamp() + %(lease)s * interval '1 second', clock_timestamp(), NULL, false,
  NULL::timestamptz FROM taken
ON CONFLICT (partition_id) DO UPDATE SET owner = excluded.owner, epoch = excluded.epoch,
  thread_pids = '{{}}', thread_backend_starts = '{{}}',
  lock_pid = excluded.lock_pid, lock_backend_start = excluded.lock_backend_start,
  batch_pid = excluded.batch_pid, batch_backend_start = excluded.batch_backend_start,
  rescues = excluded.rescues, group_member = excluded.group_member,
  lease_until = excluded.lease_until, taken_at = excluded.taken_at,
  released_at = NULL, overdue = false, working_since = NULL
RETURNING {locks.SESSION_HAS_LEASE})
SELECT taken.* FROM taken, leased
"""
# A crash suspect's marker of an earlier epoch: one crash counted, and given up after the limit.
REVERT: Final = f"""
UPDATE integration_messageerror e SET crashes = crashes + 1, attempts = attempts + 1,
  code = CASE WHEN %(hung)s THEN 'HANDLER_TIMEOUT' ELSE code END,
  state = 'RETRY', not_before = clock_timestamp(), carrier = 'row', version = version + 1,
  epoch = NULL
WHERE queue_id = %(queue)s AND state = 'PROCESSING' AND epoch < %(epoch)s
  AND (partition = %(partition)s OR (%(lowest)s AND {rows.of_nobody("e")}))
"""
# How often work died on the message itself: the row may tell of another one, marked before it.
MARK_OFFSET: Final = (
    "UPDATE integration_queuepartition SET suspect_crashes = %s, suspect_offset = %s, "
    "suspect_receipt = %s::bytea, marked_at = clock_timestamp() WHERE id = %s AND epoch = %s"
)
# The run has marked others, and ends in good order before it has come to its suspect. It waits for
# nobody who has the row: the session that does would let all leases lapse.
KEEP_SUSPECT: Final = f"""
UPDATE integration_queuepartition p SET suspect_crashes = %(crashes)s, suspect_offset = %(at)s,
  suspect_receipt = %(receipt)s::bytea
WHERE p.id = (SELECT id FROM integration_queuepartition WHERE id = %(id)s
    FOR NO KEY UPDATE SKIP LOCKED)
  AND p.epoch = %(epoch)s AND {_is_ahead("%(at)s::bigint", "%(receipt)s::bytea")}
"""
# Once as many ran alone as a batch may have, the one that kills was none of them.
RAN_ALONE: Final = """
UPDATE integration_queuepartition p SET
  unclean_ends = CASE WHEN p.rows_alone + n.count >= n.batch THEN 0 ELSE p.unclean_ends END,
  rows_alone = CASE WHEN p.rows_alone + n.count >= n.batch THEN 0 ELSE p.rows_alone + n.count END
FROM (SELECT %s::int AS count, %s::int AS batch) n
WHERE p.id = %s AND p.epoch = %s RETURNING p.rows_alone = 0
"""
RENEW: Final = (
    "UPDATE integration_partitionlease SET lease_until = clock_timestamp() + "
    "%s * interval '1 second', overdue = %s, "
    "working_since = clock_timestamp() - %s::float8 * interval '1 second' "
    "WHERE owner = %s AND released_at IS NULL"
)
RELEASE: Final = (
    "UPDATE integration_partitionlease SET released_at = clock_timestamp() "
    "WHERE owner = %s AND released_at IS NULL "
    f"RETURNING {locks.SESSION_HAS_NO_LEASE}"
)
EXPIRED: Final = (
    "SELECT ARRAY[lock_pid, batch_pid] || thread_pids, "
    "ARRAY[lock_backend_start, batch_backend_start] || thread_backend_starts "
    "FROM integration_partitionlease "
    "WHERE partition_id = %s AND released_at IS NULL AND lease_until < clock_timestamp()"
)
