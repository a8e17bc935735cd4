"""How long messages took from being written to Kafka to their end: percentiles by the hour.

From tracking, which is listed by the batch (decision 0017): of each batch its first message, which
waited longest, and of many batches those spread over the hour.
"""

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from integration.selectors.charts.hours import HOURS, Hours
from integration.selectors.tracking import rows

# An hour is looked at in so many parts, each of them up to so many batches of all queues together.
PARTS: Final = 6
BATCHES: Final = 240
# The list of batches by queue and time; partitions of other days are not looked at.
_TOOK: Final = """
SELECT width_bucket(took.at, %(begins)s::timestamptz[]) AS hour, count(*),
  percentile_cont(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (ORDER BY took.seconds)
FROM generate_series(%(since)s::timestamptz, %(now)s::timestamptz, %(part)s::interval) p (at)
CROSS JOIN unnest(%(queues)s::bigint[]) q (id)
CROSS JOIN LATERAL (
  SELECT t.at, greatest(extract(epoch FROM t.at) - t.kafka_ms / 1000.0, 0)::float8 AS seconds
  FROM integration_messagetrack t
  WHERE t.batch_rows IS NOT NULL AND t.queue_id = q.id AND t.at >= p.at
    AND t.at < p.at + %(part)s::interval AND t.kafka_ms > 0
    AND t.ended IN ('APPLIED', 'DELIVERED')
  ORDER BY t.at LIMIT %(most)s) took
GROUP BY 1
"""


class Latency(NamedTuple):
    """Of one hour in seconds; None where no message ended. `messages` are those looked at."""

    messages: int
    half: float | None
    most: float | None
    nearly_all: float | None


NOTHING: Final = Latency(0, None, None, None)


def latency_by_hour(hours: Hours, queues: Collection[int]) -> Sequence[Latency]:
    """One for each hour, oldest first, in one query with its settings."""
    if not queues:
        return [NOTHING] * HOURS
    said = {
        "begins": list(hours.begins),
        "since": hours.since,
        "now": hours.now,
        "part": f"{60 // PARTS} min",
        "queues": list(queues),
        "most": max(BATCHES // len(queues), 1),
    }
    with rows.reading(rows.NEVER_WHOLE) as cursor:
        cursor.execute(_TOOK, said)
        found = {hour: Latency(count, *times) for hour, count, times in cursor.fetchall()}
    return [found.get(hour + 1, NOTHING) for hour in range(HOURS)]
