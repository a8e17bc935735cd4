"""The head of a sequential queue: the row of the failure at a partition's position."""

from collections.abc import Callable
from typing import Any, Final

from integration.delivery.owned import HEAD_HELD, ClosedHead, CopiedHead, Owned
from integration.delivery.snapshot import QueueSnapshot
from integration.delivery.unit import OpenError
from integration.policy.moves import PASS
from integration.policy.states import (
    CLOSED,
    CLOSED_SQL,
    DUE_SQL,
    OPEN,
    OPEN_SQL,
    Ended,
    ErrorState,
    listed,
)
from integration.store import rows, strict_order

# Over a row `e` at or beyond the position of the partition `p`: it tells what became of its
# message, unless it was closed before a person moved the position back over it: then the message is
# to be read again.
IS_HEAD: Final = (
    f"(e.state IN {CLOSED_SQL} AND ("
    '(e.closed_at < p.moved_at AND e."offset" < p.moved_from) OR EXISTS ('
    "SELECT 1 FROM jsonb_to_recordset(p.moves_before) m (at timestamptz, until bigint) "
    'WHERE e.closed_at < m.at AND e."offset" < m.until))) IS NOT TRUE'
)
HEAD: Final = f"""
SELECT {rows.COLUMNS}, e.ended
FROM integration_messageerror e JOIN integration_queuepartition p ON p.id = %s
WHERE e.queue_id = %s AND e.topic_uuid = %s AND e.partition = %s AND e."offset" = %s AND {IS_HEAD}
"""
FAILED_BETWEEN: Final = f"""
SELECT e."offset", e.state IN {OPEN_SQL}
FROM integration_messageerror e JOIN integration_queuepartition p ON p.id = %s
WHERE e.queue_id = %s AND e.topic_uuid = %s AND e.partition = %s AND e."offset" BETWEEN %s AND %s
  AND {IS_HEAD}
"""
# Where the position passes it, nothing is tried by itself any more: it would come after newer ones,
# and nobody would have been asked.
EXPIRE: Final = f"""
WITH head AS (
  SELECT e.id, e.state, %s AND e.state IN {DUE_SQL} AS passed
  FROM integration_messageerror e JOIN integration_queuepartition p ON e.queue_id = p.queue_id
    AND e.topic_uuid = p.topic_uuid AND e.partition = p.partition AND e."offset" = p.next_offset
  WHERE p.id = %s AND p.epoch = %s AND e.state IN {listed(OPEN - {ErrorState.PROCESSING})}
  FOR UPDATE OF e
), told AS (
  INSERT INTO integration_errorchange (error_id, at, actor, action, from_state, to_state, reason)
  SELECT id, clock_timestamp(), 'the engine', '{PASS.action}', state, '{PASS.target}',
    'Kafka no longer has it, and the queue goes on with newer messages.' FROM head WHERE passed
)
UPDATE integration_messageerror e SET expired_at = coalesce(e.expired_at, clock_timestamp()),
  state = CASE WHEN h.passed THEN '{PASS.target}' ELSE e.state END,
  not_before = CASE WHEN h.passed THEN NULL ELSE e.not_before END,
  version = e.version + h.passed::int
FROM head h WHERE e.id = h.id
"""

Run = Callable[[str, Any], list[tuple[Any, ...]]]
Head = OpenError | ClosedHead | CopiedHead


def find(run: Run, queue: QueueSnapshot, owned: Owned) -> Head | None:
    """The failure at the position, or that of the copy which a strict error queue waits at.

    `run` returns rows. None where the message at the position is to be read.
    """
    at = [owned.id, queue.id, owned.topic_uuid, owned.partition, owned.next_offset]
    heads = run(HEAD, at)
    if not heads:
        return _copied(run, queue, owned)
    row = rows.open_error(heads[0])
    if ErrorState(row.state) in CLOSED:
        return ClosedHead(row.id, Ended(heads[0][-1] or Ended.DELETED))
    return row


def _copied(run: Run, queue: QueueSnapshot, owned: Owned) -> ClosedHead | CopiedHead | None:
    if not queue.keeps_copies_in_order or owned.state_code != HEAD_HELD:
        return None
    for id_, state, ended in run(strict_order.COPIED_HEAD, [owned.id]):
        if ErrorState(state) in CLOSED:
            return ClosedHead(id_, Ended(ended or Ended.DELETED))
        return CopiedHead(id_)
    return None
