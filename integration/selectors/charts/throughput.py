"""Messages that came in and that were settled, by the hour, from the samples of the queues."""

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from integration.selectors.charts.hours import HOURS, Hours
from integration.store.sessions import fetch_all

# How a queue stood at the end of each hour is what its last sample before says, if there is one
# within the hour; what happened between is the difference. A step back is a topic made anew.
_STEPS: Final = """
WITH edges AS (
  SELECT at, number FROM unnest(%(edges)s::timestamptz[]) WITH ORDINALITY AS e (at, number)
), stood AS (
  SELECT q.id, e.number, s.position, s."end"
  FROM unnest(%(queues)s::bigint[]) q (id) CROSS JOIN edges e CROSS JOIN LATERAL (
    SELECT position, "end" FROM integration_queuesample
    WHERE queue_id = q.id AND at <= e.at AND at > e.at - interval '1 hour'
    ORDER BY at DESC LIMIT 1) s
), steps AS (
  SELECT id, number, position, "end", lag(number) OVER w AS before,
    position - lag(position) OVER w AS settled, "end" - lag("end") OVER w AS came
  FROM stood WINDOW w AS (PARTITION BY id ORDER BY number)
)
SELECT number, sum(greatest(came, 0))::bigint, sum(greatest(settled, 0))::bigint
FROM steps WHERE before = number - 1 GROUP BY number
"""


class Throughput(NamedTuple):
    """One hour; None where no samples tell it."""

    incoming: int | None
    settled: int | None


def throughput_by_hour(hours: Hours, queues: Collection[int]) -> Sequence[Throughput]:
    """One for each hour, oldest first, in one query."""
    edges = [*hours.begins, hours.now]
    found = {
        int(number): Throughput(came, settled)
        for number, came, settled in fetch_all(_STEPS, {"edges": edges, "queues": list(queues)})
    }
    # The first edge is the beginning of the first hour, and has the number 1.
    return [found.get(hour + 2, Throughput(None, None)) for hour in range(HOURS)]
