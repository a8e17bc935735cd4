"""How often a dead letter with the same content was sent back from its error queue before."""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from integration.store.sessions import fetch_all

# By what it holds, not by what it says of itself: an application may drop headers. What people
# have edited before it was sent counts as what was sent.
COUNTS: Final = """
WITH asked AS MATERIALIZED (
  SELECT id, queue_id, key, md5(coalesce(edited_payload, payload, '')) AS content
  FROM integration_messageerror WHERE id = ANY(%s)
), sent AS (
  SELECT e.queue_id, e.key, md5(coalesce(e.edited_payload, e.payload, '')) AS content, count(*) AS n
  FROM integration_messageerror e
  WHERE e.ended = 'RETURNED' AND e.queue_id IN (SELECT queue_id FROM asked) GROUP BY 1, 2, 3
)
SELECT a.id, s.n FROM asked a JOIN sent s ON s.queue_id = a.queue_id AND s.content = a.content
  AND s.key IS NOT DISTINCT FROM a.key
"""


def counts(error_ids: Sequence[UUID]) -> dict[UUID, int]:
    """Count earlier ones by failure, as long as cleanup has not removed them."""
    return dict(fetch_all(COUNTS, [list(error_ids)])) if error_ids else {}
