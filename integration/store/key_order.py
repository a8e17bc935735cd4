"""Order within a key in SQL: which keys are open, and whose turn comes when a failure is closed.

Of the open failures of one key all but the first are PARKED, unless a person moved them; in a
sequential queue those behind a head that a person has parked. What was released behind another is
parked by the run that finds it, which looks at one row of each key from then on. Whoever parks one
behind another, and whoever closes one, wakes what is first of its key then, in the same commit and
under the same lock: so none waits behind nothing.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final
from uuid import UUID

from integration.models import MessageError
from integration.policy.states import OPEN, OPEN_SQL
from integration.store.locks import LockClass
from integration.store.sessions import fetch_all

Run = Callable[[str, Any], Any]

OPEN_KEYS: Final = f"""
SELECT k.key, CASE WHEN (first.topic_uuid, first.partition) = (%s, %s)
    THEN first."offset" ELSE -1 END
FROM unnest(%s::bytea[]) k (key) CROSS JOIN LATERAL (
  SELECT e.topic_uuid, e.partition, e."offset" FROM integration_messageerror e
  WHERE e.queue_id = %s AND e.order_key = k.key AND e.state IN {OPEN_SQL}
    AND (%s OR e.parked_at IS NOT NULL)
  ORDER BY e.arrival_batch, e.arrival_index LIMIT 1) first"""
# The position went back, and these rows are of messages read anew: what is open behind them under
# their keys comes after them again.
RENUMBER_LATER: Final = f"""
UPDATE integration_messageerror o SET arrival_batch = n.arrival_batch
FROM (SELECT queue_id, order_key, topic_uuid, partition, min("offset") AS "offset", arrival_batch
      FROM integration_messageerror WHERE id = ANY(%s) AND order_key IS NOT NULL
      GROUP BY queue_id, order_key, topic_uuid, partition, arrival_batch) n
WHERE o.queue_id = n.queue_id AND o.order_key = n.order_key AND o.state IN {OPEN_SQL}
  AND o.topic_uuid = n.topic_uuid AND o.partition = n.partition AND o."offset" > n."offset"
  AND o.arrival_batch < n.arrival_batch"""
# Those whose own messages were met: what was applied before them in the log is older than they are,
# although it was applied again.
RENUMBER_MET: Final = f"""
UPDATE integration_messageerror SET arrival_batch = %s, arrival_index = "offset"
WHERE queue_id = %s AND topic_uuid = %s AND partition = %s AND "offset" = ANY(%s)
  AND state IN {OPEN_SQL} RETURNING id"""
# Over an open failure `e`: nothing that arrived before it is open under its key.
IS_FIRST_OF_KEY: Final = f"""NOT EXISTS (
    SELECT 1 FROM integration_messageerror o
    WHERE o.queue_id = e.queue_id AND o.order_key = e.order_key
      AND o.state IN {OPEN_SQL}
      AND (o.arrival_batch, o.arrival_index) < (e.arrival_batch, e.arrival_index))"""
# Of a parked failure: it was not parked when it came, but when it was released.
WAS_RELEASED: Final = "(state = 'PARKED' AND parked_at IS NULL)"
# The same to be told of each of many rows: one step into the index, also where all have one key.
IS_THE_FIRST: Final = f"""(e.order_key IS NULL OR e.id = (
    SELECT o.id FROM integration_messageerror o
    WHERE o.queue_id = e.queue_id AND o.order_key = e.order_key AND o.state IN {OPEN_SQL}
    ORDER BY o.arrival_batch, o.arrival_index LIMIT 1))"""
MOST_PARKED: Final = """
SELECT coalesce(max(n.parked), 0) FROM unnest(%s::bytea[]) k (key) CROSS JOIN LATERAL (
  SELECT count(*) AS parked FROM (
    SELECT 1 FROM integration_messageerror e
    WHERE e.queue_id = %s AND e.order_key = k.key AND e.state = 'PARKED'
      AND e.parked_at IS NOT NULL LIMIT %s) few) n"""
# The messages of a key may have moved to a partition that was added: those in the others, written
# before, come first. Nobody knows which these are as long as producers write there. What a log has
# lost up to there never comes: where it ends now nothing is left.
BEGIN: Final = """
UPDATE integration_queuepartition p SET begins_after = NULL, producers_know_at = NULL
FROM integration_queue q
WHERE p.id = %s AND p.epoch = %s AND q.id = p.queue_id AND (q.ordering <> 'key'
  OR p.producers_know_at IS NULL AND NOT EXISTS (
    SELECT 1 FROM jsonb_each_text(p.begins_after) b (partition, target)
    JOIN integration_queuepartition o ON o.queue_id = p.queue_id
      AND o.partition = b.partition::int AND o.topic_uuid = p.topic_uuid
    LEFT JOIN unnest(%s::int[], %s::bigint[]) e (partition, at) ON e.partition = o.partition
    WHERE o.next_offset < b.target::bigint AND o.next_offset IS DISTINCT FROM e.at))"""
PRODUCERS_KNOW: Final = """
SELECT p.producers_know_at, p.producers_know_at <= clock_timestamp()
FROM integration_queuepartition p JOIN integration_queue q ON q.id = p.queue_id
WHERE p.id = %s AND p.producers_know_at IS NOT NULL AND q.ordering = 'key'"""
# For the same partitions as before: one whose topic is another one is waited for no more.
NOTE_ENDS: Final = """
UPDATE integration_queuepartition p SET producers_know_at = NULL, begins_after = coalesce((
    SELECT jsonb_object_agg(b.partition, coalesce(e.at, b.target::bigint))
    FROM jsonb_each_text(p.begins_after) b (partition, target)
    LEFT JOIN unnest(%s::int[], %s::bigint[]) e (partition, at) ON e.partition = b.partition::int
  ), '{}')
WHERE p.id = %s AND p.epoch = %s AND p.producers_know_at <= clock_timestamp()
  AND p.begins_after IS NOT NULL"""
# Few locks for however many keys: a transaction may hold only so many.
_LOCK: Final = f"""
SELECT pg_advisory_xact_lock({LockClass.KEY_ORDER:d}, id) FROM (
  SELECT DISTINCT ((e.queue_id %% 1000000) * 64 + get_byte(e.order_key, 0) %% 64)::int AS id
  FROM integration_messageerror e WHERE e.id = ANY(%s) AND e.order_key IS NOT NULL
  ORDER BY 1) keys"""
_WAKE: Final = f"""
UPDATE integration_messageerror e
SET state = 'RETRY', not_before = clock_timestamp(), budget_since = clock_timestamp(),
  version = e.version + 1
FROM (SELECT DISTINCT queue_id, order_key FROM integration_messageerror
      WHERE id = ANY(%s) AND order_key IS NOT NULL) keys
CROSS JOIN LATERAL (
  SELECT o.id, o.state FROM integration_messageerror o
  WHERE o.queue_id = keys.queue_id AND o.order_key = keys.order_key AND o.state IN {OPEN_SQL}
  ORDER BY o.arrival_batch, o.arrival_index LIMIT 1) first
WHERE e.id = first.id AND first.state = 'PARKED' AND e.state = 'PARKED'"""
# So many of the oldest at a time: one statement of a run takes no longer than a handler may. The
# state is looked at again, but not looked up by: while statistics are old, that would compare each
# with all.
AT_ONCE: Final = 20_000
WAKE_SOME: Final = f"""
UPDATE integration_messageerror e
SET state = 'RETRY', not_before = clock_timestamp(), budget_since = clock_timestamp(),
  version = e.version + 1
FROM (SELECT p.id FROM integration_messageerror p WHERE p.queue_id = %s AND p.state = 'PARKED'
      ORDER BY p.partition, p.arrival_batch, p.arrival_index LIMIT {AT_ONCE}) oldest
WHERE e.id = oldest.id AND e.state || '' = 'PARKED' AND (NOT %s OR {IS_THE_FIRST})"""


FIRST_OF_KEY: Final = f"""
SELECT o.id FROM integration_messageerror o
WHERE o.queue_id = %s AND o.order_key = %s AND o.state IN {OPEN_SQL}
ORDER BY o.arrival_batch, o.arrival_index LIMIT 1"""
PARKED_OF_KEY: Final = """
SELECT count(*) FROM (SELECT 1 FROM integration_messageerror o
  WHERE o.queue_id = %s AND o.order_key = %s AND o.state = 'PARKED'
    AND (o.arrival_batch, o.arrival_index) > (%s, %s) LIMIT %s) parked"""


def ahead_of(error: MessageError) -> UUID | None:
    """The open failure that this open one waits behind because of its key, or None."""
    is_kept = error.queue.keeps_keys_in_order or error.parked_at is not None
    if error.state not in OPEN or error.order_key is None or not is_kept:
        return None
    first = fetch_all(FIRST_OF_KEY, [error.queue_id, bytes(error.order_key)])
    return next((id_ for (id_,) in first if id_ != error.pk), None)


def parked_behind(error: MessageError, cap: int) -> int:
    """Count what is parked behind this open failure, up to the cap."""
    is_kept = error.queue.keeps_keys_in_order or error.queue.is_sequential
    if error.order_key is None or not is_kept:
        return 0
    place = [error.arrival_batch, error.arrival_index]
    key = [error.queue_id, bytes(error.order_key)]
    [(count,)] = fetch_all(PARKED_OF_KEY, [*key, *place, cap])
    return int(count)


def wake(run: Run, failures: Sequence[UUID]) -> None:
    """Make due what is first of its key now that these failures were parked or closed.

    To be called at the end of the transaction that did it: the locks stay until its commit.
    """
    ids = list(failures)
    run(_LOCK, [ids])
    run(_WAKE, [ids])
