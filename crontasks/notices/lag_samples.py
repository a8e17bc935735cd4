"""Writes down every five minutes what waits, and keeps a week of it: rules are tried on that."""

from typing import Final

from crontasks.cursor import Cursor
from crontasks.notices.measures import WAITING

EVERY_SECONDS: Final = 300
KEPT_DAYS: Final = 8
PRUNE_ROWS: Final = 5_000

# All rows of one look have one moment, so that two who look within it write one set. An idle queue
# has no row; the row without a queue tells "nothing waited" from "nobody looked".
_MOMENT: Final = (
    f"to_timestamp(floor(extract(epoch FROM statement_timestamp()) / {EVERY_SECONDS})"
    f" * {EVERY_SECONDS})"
)
_WRITE: Final = f"""
    INSERT INTO crontasks_lagsample (queue_id, at, lag, oldest_seconds)
    SELECT NULL, {_MOMENT}, 0, 0
    UNION ALL SELECT w.id, {_MOMENT}, w.lag, w.oldest FROM ({WAITING}) w
    ON CONFLICT DO NOTHING"""
_PRUNE: Final = f"""
    DELETE FROM crontasks_lagsample WHERE id IN (
        SELECT id FROM crontasks_lagsample
        WHERE at < statement_timestamp() - interval '{KEPT_DAYS} days'
        ORDER BY at LIMIT {PRUNE_ROWS})"""


def write(cursor: Cursor) -> None:
    """Write what waits now, and remove what is too old. Raises DatabaseError."""
    cursor.execute(_WRITE)
    cursor.execute(_PRUNE)
