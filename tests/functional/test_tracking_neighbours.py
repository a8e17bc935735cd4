"""The messages beside one: found by whatever way is fastest, they are those that are next to it."""

from datetime import timedelta
from typing import Final

import pytest
from django.db import connection
from django.utils import timezone

from integration.models import Queue
from integration.selectors.tracking import rows
from integration.selectors.tracking.neighbours import CLOSE, neighbours
from integration.selectors.tracking.rows import Queues, TrackRow
from tests.support.rows import a_queue_row

pytestmark = [pytest.mark.servers, pytest.mark.django_db]
COUNT: Final = 4 * CLOSE
# Every message is tried twice, and two rows share a moment. "rare" comes back further away than is
# looked through; "old" has more rows than are looked up, and one more a long way behind them.
WRITTEN: Final = """
INSERT INTO integration_messagetrack
  (queue_id, partition, "offset", arrival_batch, message_id, interface, ended, key, at)
SELECT %(queue)s, 0, n / 2, n, 'm-' || n / 2, 'I', 'APPLIED',
  CASE WHEN n <= 1.1 * %(close)s OR n = 3 * %(close)s THEN 'old'
    WHEN n %% (%(close)s * 1.3)::int < 2 THEN 'rare'
    WHEN n %% 10 = 0 THEN NULL WHEN n %% 10 < 6 THEN 'often' ELSE 'k-' || n END,
  %(begin)s + (n + n %% 3) / 2 * interval '1 ms'
FROM generate_series(1, %(count)s) n
"""


@pytest.fixture
def queue() -> Queue:
    made = a_queue_row()
    said = {"queue": made.pk, "close": CLOSE, "count": COUNT}
    with connection.cursor() as cursor:
        cursor.execute(WRITTEN, said | {"begin": timezone.now() - timedelta(minutes=10)})
    return made


def every(queues: Queues) -> list[TrackRow]:
    found = rows.by_index(["t.interface = 'I'"], {}, queues, limit=COUNT)
    return sorted(found, key=lambda row: row.place)


def beside(track: TrackRow, known: list[TrackRow]) -> tuple[TrackRow | None, TrackRow | None]:
    """The plain way: look at all of them."""
    others = [row for row in known if row.message_id != track.message_id]
    earlier = [row for row in others if row.place < track.place]
    later = [row for row in others if row.place > track.place]
    return earlier[-1] if earlier else None, later[0] if later else None


def test_they_are_the_next_of_the_queue_and_of_the_key(queue: Queue) -> None:
    queues = {queue.pk: (queue.name, queue.direction)}
    known = every(queues)
    chosen = [*known[:3], *known[::371], *known[-3:]]
    chosen += [row for row in known if row.key == "rare"]
    chosen += [row for row in known if row.key == "old"][-2:]
    assert {row.key for row in chosen} >= {"", "old", "rare", "often"}
    for track in chosen:
        found = neighbours(track, queues)
        assert (found.earlier, found.later) == beside(track, known)
        of_key = [row for row in known if row.key == track.key] if track.key else []
        assert (found.earlier_of_key, found.later_of_key) == beside(track, of_key)
