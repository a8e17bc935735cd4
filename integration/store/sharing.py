"""SQL by which the runs of one queue see each other and hand partitions over.

Each run holds a shared lock on its queue for as long as it lives, so that the database itself
knows how many there are: it goes with its session, whatever becomes of the process.
"""

from typing import Final

from integration.store import locks

# A partition is free when nobody holds its lock, or when its owner let the lease lapse: that
# owner is stopped or hangs, and the next one ends its sessions.
LOCKED: Final = f"""
    locked AS MATERIALIZED ({locks.held(locks.LockClass.PARTITION)})"""
IS_FREE: Final = """(
        NOT EXISTS (SELECT 1 FROM locked WHERE locked.id = p.id)
        OR EXISTS (
            SELECT 1 FROM integration_partitionlease s
            WHERE s.partition_id = p.id AND s.released_at IS NULL
              AND s.lease_until < clock_timestamp()
        )
    )"""
FREE: Final = f"""
WITH {LOCKED}
SELECT p.partition, p.id FROM integration_queuepartition p
WHERE p.queue_id = %s AND {IS_FREE} ORDER BY p.partition"""

# A run that is asked for takes what its owner died with; no worker had a slot for it in this time.
NOBODY_CAME_SECONDS: Final = 3
LEFT: Final = f"""
WITH {LOCKED}
SELECT p.id FROM integration_queuepartition p
LEFT JOIN integration_partitionlease l ON l.partition_id = p.id
WHERE p.queue_id = %(queue)s AND {IS_FREE}
  AND (l.partition_id IS NULL OR l.released_at IS NOT NULL OR EXISTS (
      SELECT 1 FROM integration_queue q WHERE q.id = p.queue_id AND q.start_requested_at
          < clock_timestamp() - make_interval(secs => {NOBODY_CAME_SECONDS})))
ORDER BY p.partition LIMIT %(count)s"""

# The runs of all queues, and the sessions that hold their locks.
MEMBERS: Final = f"""
    SELECT objid::bigint AS queue_id, pid FROM pg_locks WHERE {locks.of(locks.LockClass.RUN)}"""
# Whoever let its leases lapse stands still, and what it holds is the others'. It counts again as
# soon as it renews them, unless somebody has ended its session.
RUNS: Final = f"""
WITH member AS ({MEMBERS}),
stopped AS (
  SELECT s.lock_pid AS pid FROM integration_partitionlease s
  JOIN integration_queuepartition p ON p.id = s.partition_id
  WHERE p.queue_id = %(queue)s AND s.released_at IS NULL AND s.lease_until < clock_timestamp()
    AND s.lock_pid <> pg_backend_pid())
SELECT (SELECT count(*) FROM integration_queuepartition WHERE queue_id = %(queue)s),
  count(*), count(*) FILTER (WHERE pid < pg_backend_pid())
FROM member WHERE queue_id = %(queue)s AND pid NOT IN (SELECT pid FROM stopped)"""
# How many runs a queue `q` has, as SQL.
COUNT: Final = f"(SELECT count(*) FROM ({MEMBERS}) member WHERE member.queue_id = q.id)"

# Longer than most batches take: a busy run asks again between two of them.
HELP_SECONDS: Final = 5
# The same limit of a queue's runs as policy.shares.most_runs.
IS_HELP_WANTED: Final = f"""(
        q.help_wanted_at > clock_timestamp() - make_interval(secs => {HELP_SECONDS})
        AND {COUNT} < (
            SELECT least(count(*), coalesce(q.workers, count(*)))
            FROM integration_queuepartition WHERE queue_id = q.id)
    )"""
ASK_FOR_HELP: Final = (
    "UPDATE integration_queue SET help_wanted_at = clock_timestamp() WHERE id = %s"
)
IS_SERVED: Final = "UPDATE integration_queue SET start_requested_at = NULL WHERE id = %s"
# One statement, so that a process that is stopped here has given the partition up or still has it:
# a lock without a lease would be nobody's to take.
GIVE_UP: Final = f"""
WITH gone AS (
  UPDATE integration_partitionlease SET released_at = clock_timestamp()
  WHERE owner = %s AND partition_id = ANY(%s) AND released_at IS NULL RETURNING partition_id
)
SELECT pg_advisory_unlock({locks.LockClass.PARTITION:d}, partition_id::int) FROM gone"""
