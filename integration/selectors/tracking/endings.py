"""The latest endings of tries, for each queue."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from integration.models import Queue
from integration.selectors.tracking import batches, rows
from integration.selectors.tracking.batches import MICROSECOND, Span

COLUMNS: Final = "t.queue_id, t.ended"


@dataclass(frozen=True, slots=True)
class Endings:
    """Counts of tries by their ending, by queue number, within the last so many seconds."""

    seconds: float
    counts: Mapping[int, Mapping[str, int]]


def latest(seconds: int, most: int) -> Endings:
    """Those of the last seconds; the window is cut where more than `most` ended in it."""
    queues = list(Queue.objects.values_list("pk", flat=True))
    counts: dict[int, dict[str, int]] = {}
    with rows.reading(rows.NEVER_WHOLE) as cursor:
        cursor.execute("SELECT statement_timestamp()")
        (now,) = cursor.fetchone()
        span = Span(queues, now - timedelta(seconds=seconds) + MICROSECOND, now + MICROSECOND)
        walk = batches.Walk(cursor, span, most)
        for part in walk.parts():
            cursor.execute(
                f"SELECT t.queue_id, t.ended, count(*) FROM ({part.rows(COLUMNS, rows.ALL)}) t "
                "GROUP BY t.queue_id, t.ended",
                part.values,
            )
            for queue, ended, count in cursor.fetchall():
                of_queue = counts.setdefault(queue, {})
                of_queue[ended] = of_queue.get(ended, 0) + count
            walk.met = sum(sum(of_queue.values()) for of_queue in counts.values())
            if walk.met >= most:
                return Endings(max((now - part.values["first"]).total_seconds(), 0.001), counts)
    return Endings(seconds, counts)
