"""Samples of how queues stand, written by one process for all queues at once."""

from typing import Any, Final

from integration.store.starts import IS_READ

SAMPLE_SECONDS: Final = 15
KEPT_HOURS: Final = 24
# Nobody reads the difference between 10,000 and more from a sample; counting it costs time.
COUNT_CAP: Final = 10_000
# One round of pruning removes at most so many: a day without a leader is caught up in portions.
PRUNE_ROWS: Final = 5_000

# A queue with a partition that nobody has looked at yet has no sample: a gap, not a zero.
WRITE: Final = f"""
    INSERT INTO integration_queuesample (queue_id, at, "position", "end", held, retrying)
    SELECT q.id, statement_timestamp(), sums.next, sums.high, held.count, retrying.count
    FROM integration_queue q
    JOIN (
        SELECT p.queue_id, sum(p.next_offset) AS next,
               sum(greatest(p.high_watermark, p.next_offset)) AS high
        FROM integration_queuepartition p
        GROUP BY p.queue_id HAVING bool_and(p.high_watermark IS NOT NULL
            AND (p.high_watermark > p.next_offset OR NOT p.more_waiting))
    ) sums ON sums.queue_id = q.id
    CROSS JOIN LATERAL (SELECT count(*) FROM (
        SELECT 1 FROM integration_messageerror e
        WHERE e.queue_id = q.id AND e.state = 'HOLD' LIMIT {COUNT_CAP}) few) held
    CROSS JOIN LATERAL (SELECT count(*) FROM (
        SELECT 1 FROM integration_messageerror e
        WHERE e.queue_id = q.id AND e.state = 'RETRY' LIMIT {COUNT_CAP}) few) retrying
    WHERE {IS_READ}
    ON CONFLICT DO NOTHING"""
PRUNE: Final = f"""
    DELETE FROM integration_queuesample WHERE id IN (
        SELECT id FROM integration_queuesample
        WHERE at < statement_timestamp() - interval '{KEPT_HOURS} h'
        ORDER BY at LIMIT {PRUNE_ROWS})"""


def write(cursor: Any) -> int:
    """Write one sample of every queue with a position; returns how many. Raises DatabaseError."""
    cursor.execute(WRITE)
    return int(cursor.rowcount)


def prune(cursor: Any) -> int:
    """Remove samples older than a day, at most PRUNE_ROWS of them; returns how many."""
    cursor.execute(PRUNE)
    return int(cursor.rowcount)
