"""The state of a partition in its row, written under the epoch and the position of its owner."""

from typing import Any, Final
from uuid import UUID

from integration.delivery.batch_result import StateChange
from integration.delivery.owned import Owned
from integration.store import rows


def not_held(condition: str) -> str:
    """SQL: the `id` of partitions that meet the condition and that no transaction holds now."""
    return (
        f"SELECT id FROM integration_queuepartition WHERE {condition} FOR NO KEY UPDATE SKIP LOCKED"
    )


# Where a topic was cut more than once, the lowest end counts.
STATE: Final = """
UPDATE integration_queuepartition SET
  state_since = CASE WHEN state = %(state)s AND state_code = %(code)s
    THEN state_since ELSE clock_timestamp() END,
  state = %(state)s, state_code = %(code)s, state_text = %(text)s, state_error = %(error)s,
  resume_at = clock_timestamp() + %(resume)s * interval '1 second', probes = %(probes)s,
  next_offset = coalesce(%(next)s, next_offset), lost_from = least(lost_from, %(lost)s),
  last_batch = %(batch)s
WHERE id = %(id)s AND epoch = %(epoch)s AND next_offset = %(old)s
"""


def state_parameters(owned: Owned, change: StateChange, batch: UUID) -> dict[str, Any]:
    return {
        "state": change.state,
        "code": change.code,
        "text": rows.plain(change.text),
        "error": change.error,
        "resume": change.resume_seconds,
        "probes": change.probes,
        "lost": change.lost_from,
        "id": owned.id,
        "epoch": owned.epoch,
        "batch": batch,
    }
