"""Strict error queues in SQL: whose turn it is among the failures that were copied to one.

Only rows decide, never the copies: one that is lost, refused by Kafka or late strands nobody.
"""

from typing import Final
from uuid import UUID

from integration.models import MessageError, Queue
from integration.policy.states import OPEN_SQL
from integration.store.sessions import fetch_all

_OPEN: Final = f"o.state IN {OPEN_SQL}"
_PLACE: Final = (
    "o.id, o.copied_at, o.arrival_batch, o.arrival_index, o.queue_id, o.order_key, o.parked_at"
)

# For each strict error queue `s` the one failure whose turn it is, and how far the queue has
# passed. A stranger's failure it stands at comes first; then the earliest copied one that is open
# and whose copy it has not passed (a copy is passed untried when it expired in Kafka). Where its
# key keeps its order, the turn is that of the first of its key: one of them that was copied later,
# or not at all, would wait for it otherwise, and it for that one.
TURNS: Final = f"""
SELECT s.id AS error_queue, p.next_offset, coalesce(of_key.id, head.id) AS head
FROM integration_queue s
LEFT JOIN integration_queuepartition p ON p.queue_id = s.id AND p.partition = 0
CROSS JOIN LATERAL (
  SELECT first.* FROM (
    SELECT 0 AS rank, {_PLACE} FROM integration_messageerror o
    WHERE o.queue_id = s.id AND o.topic_uuid = p.topic_uuid AND o.partition = p.partition
      AND o."offset" = p.next_offset AND {_OPEN}
    UNION ALL
    SELECT 1, {_PLACE}
    FROM integration_queue f JOIN integration_messageerror o ON o.queue_id = f.id
    WHERE f.error_queue_id = s.id AND o.copied_at IS NOT NULL AND {_OPEN}
      AND coalesce(o.copy_offset >= p.next_offset, true)
  ) first
  ORDER BY first.rank, first.copied_at, first.arrival_batch, first.arrival_index, first.id
  LIMIT 1
) head
JOIN integration_queue h ON h.id = head.queue_id
LEFT JOIN LATERAL (
  SELECT o.id FROM integration_messageerror o
  WHERE o.queue_id = head.queue_id AND o.order_key = head.order_key AND {_OPEN}
    AND CASE h.kind WHEN 'sequential' THEN head.parked_at IS NOT NULL ELSE h.ordering = 'key' END
  ORDER BY o.arrival_batch, o.arrival_index LIMIT 1
) of_key ON true
WHERE s.is_error_queue AND s.strict_order"""
# Over a row `e` and the `turn` of its queue's error queue.
WAITS: Final = """(
    e.copied_at IS NOT NULL AND turn.head <> e.id
    AND coalesce(e.copy_offset >= turn.next_offset, true)
)"""
_AHEAD: Final = f"""
WITH turn AS MATERIALIZED ({TURNS} AND s.id = %s)
SELECT turn.head FROM turn, integration_messageerror e WHERE e.id = %s AND {WAITS}"""
# The failure at whose copy the partition was blocked; its own failures are found by their offset.
COPIED_HEAD: Final = """
SELECT e.id, e.state, e.ended FROM integration_queuepartition p
JOIN integration_messageerror e ON e.id = p.state_error AND e.queue_id <> p.queue_id
WHERE p.id = %s AND p.state = 'BLOCKED' AND p.state_code = 'HEAD_HELD'"""
OPEN_COPIES: Final = f"""
SELECT o.id FROM integration_messageerror o JOIN integration_queue f ON f.id = o.queue_id
WHERE o.id = ANY(%s) AND f.error_queue_id = %s AND {_OPEN}"""


def of(error_queue: Queue | None) -> int | None:
    """The id of an error queue that keeps its order, or None."""
    is_strict = error_queue is not None and error_queue.is_error_queue and error_queue.strict_order
    return error_queue.pk if error_queue is not None and is_strict else None


def ahead_of(error: MessageError) -> UUID | None:
    """The failure that has to be closed before this one is tried, or None.

    One query, made only for a failure that was copied to a strict error queue.
    """
    strict = of(error.queue.error_queue)
    if strict is None or error.copied_at is None:
        return None
    return next((head for (head,) in fetch_all(_AHEAD, [strict, error.pk])), None)
