"""Order within a key in SQL: which keys are open, and whose turn comes when a failure is closed.

Of the open failures of one key all but the first are PARKED, unless a person moved them. Whoever
parks one behind another, and whoever closes one, wakes what is first of its key then, in the same
commit and under the same lock: so none waits behind nothing.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final
from uuid import UUID

from integration.models import MessageError
from integration.policy.states import OPEN_SQL, ErrorState
from integration.store.locks import LockClass
from integration.store.sessions import fetch_all

Run = Callable[[str, Any], Any]

OPEN_KEYS: Final = f"""
SELECT k.key FROM unnest(%s::bytea[]) k (key) WHERE EXISTS (
  SELECT 1 FROM integration_messageerror e
  WHERE e.queue_id = %s AND e.order_key = k.key AND e.state IN {OPEN_SQL})"""
# Over an open failure `e`: nothing that arrived before it is open under its key.
IS_FIRST_OF_KEY: Final = f"""NOT EXISTS (
    SELECT 1 FROM integration_messageerror o
    WHERE o.queue_id = e.queue_id AND o.order_key = e.order_key
      AND o.state IN {OPEN_SQL}
      AND (o.arrival_batch, o.arrival_index) < (e.arrival_batch, e.arrival_index))"""
# Few locks for however many keys: a transaction may hold only so many.
_LOCK: Final = f"""
SELECT pg_advisory_xact_lock({LockClass.KEY_ORDER:d}, id) FROM (
  SELECT DISTINCT ((e.queue_id %% 1000000) * 64 + get_byte(e.order_key, 0) %% 64)::int AS id
  FROM integration_messageerror e JOIN integration_queue q ON q.id = e.queue_id
  WHERE e.id = ANY(%s) AND e.order_key IS NOT NULL AND q.ordering = 'key'
  ORDER BY 1) keys"""
_WAKE: Final = f"""
UPDATE integration_messageerror e
SET state = 'RETRY', not_before = clock_timestamp(), version = e.version + 1
FROM (SELECT DISTINCT queue_id, order_key FROM integration_messageerror
      WHERE id = ANY(%s) AND order_key IS NOT NULL) keys
CROSS JOIN LATERAL (
  SELECT o.id, o.state FROM integration_messageerror o
  WHERE o.queue_id = keys.queue_id AND o.order_key = keys.order_key AND o.state IN {OPEN_SQL}
  ORDER BY o.arrival_batch, o.arrival_index LIMIT 1) first
WHERE e.id = first.id AND first.state = 'PARKED' AND e.state = 'PARKED'"""
WAKE_ALL: Final = f"""
UPDATE integration_messageerror e
SET state = 'RETRY', not_before = clock_timestamp(), version = e.version + 1
WHERE e.queue_id = %s AND e.state = 'PARKED' AND (NOT %s OR {IS_FIRST_OF_KEY})"""


FIRST_OF_KEY: Final = f"""
SELECT o.id FROM integration_messageerror o
WHERE o.queue_id = %s AND o.order_key = %s AND o.state IN {OPEN_SQL}
ORDER BY o.arrival_batch, o.arrival_index LIMIT 1"""
PARKED_OF_KEY: Final = """
SELECT count(*) FROM (SELECT 1 FROM integration_messageerror o
  WHERE o.queue_id = %s AND o.order_key = %s AND o.state = 'PARKED'
    AND (o.arrival_batch, o.arrival_index) > (%s, %s) LIMIT %s) parked"""


def ahead_of(error: MessageError) -> UUID | None:
    """The open failure that a parked one waits behind, or None."""
    if error.state != ErrorState.PARKED or error.order_key is None:
        return None
    first = fetch_all(FIRST_OF_KEY, [error.queue_id, bytes(error.order_key)])
    return next((id_ for (id_,) in first if id_ != error.pk), None)


def parked_behind(error: MessageError, cap: int) -> int:
    """Count what is parked behind this open failure, up to the cap."""
    if error.order_key is None or not error.queue.keeps_keys_in_order:
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
