"""How often a dead letter with the same content was sent back from its error queue before."""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from integration.store.sessions import fetch_all

# So often the resend may be told to send one back at most: what is beyond need not be counted.
MOST: Final = 1_000
# By what it holds, not by what it says of itself: an application may drop headers. What people
# have edited before it was sent counts as what was sent. Each content of a page is looked up once
# in the index `error_returned_content`, whatever else was sent back.
COUNTS: Final = f"""
WITH asked AS MATERIALIZED (
  SELECT id, queue_id, key, md5(coalesce(edited_payload, payload, '')) AS content
  FROM integration_messageerror WHERE id = ANY(%s)
), sent AS (
  SELECT a.queue_id, a.key, a.content, (SELECT count(*) FROM (
    SELECT FROM integration_messageerror e
    WHERE e.ended = 'RETURNED' AND e.queue_id = a.queue_id
    AND md5(coalesce(e.edited_payload, e.payload, '')) = a.content
    AND md5(coalesce(e.key, '')) = md5(coalesce(a.key, ''))
    AND e.key IS NOT DISTINCT FROM a.key LIMIT {MOST}) counted) AS n
  FROM (SELECT DISTINCT queue_id, key, content FROM asked) a
)
SELECT a.id, s.n FROM asked a JOIN sent s ON s.queue_id = a.queue_id AND s.content = a.content
  AND s.key IS NOT DISTINCT FROM a.key WHERE s.n > 0
"""


def counts(error_ids: Sequence[UUID]) -> dict[UUID, int]:
    """Count earlier ones by failure, up to MOST, as long as cleanup has not removed them."""
    return dict(fetch_all(COUNTS, [list(error_ids)])) if error_ids else {}
