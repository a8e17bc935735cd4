"""Queues to which nothing comes, in the lag monitor: a few of them are looked at, the rest not.

The watch of idle queues knows where their logs end, for it waits there. What else can be seen of
them (settings, a topic made anew, the low watermark) waits for nobody: each look asks about some of
them by chance, so that a thousand idle queues cost little and each is looked at now and then.
"""

import random
from collections.abc import Collection
from typing import Final, NamedTuple

from crontasks.running.idle import IS_WATCHED
from integration.store.sessions import fetch_all
from integration.store.stable_ends import CODES

# Where there are no more than these, each look asks about all of them.
LEAST: Final = 25
# Of many: each comes about every five minutes, with a look every fifteen seconds.
SHARE: Final = 0.05
_RESTING: Final = f"""
SELECT p.queue_id, array_agg(p.id) FROM integration_queuepartition p
JOIN integration_queue q ON q.id = p.queue_id JOIN integration_provider v ON v.id = q.provider_id
WHERE q.id = ANY(%s) AND {IS_WATCHED} GROUP BY p.queue_id
HAVING bool_and(p.idle_since IS NOT NULL AND p.state_code <> ALL(%s)
    AND p.oldest_waiting_at IS NULL AND coalesce(p.next_offset >= p.high_watermark, false))"""


class Left(NamedTuple):
    """Queues that are left alone by this look, and the rows of their partitions."""

    queues: Collection[int]
    rows: Collection[int]


def left_alone(queue_ids: Collection[int]) -> Left:
    """Of these queues, those about which nobody is asked this time: nothing waits in any."""
    resting = fetch_all(_RESTING, (list(queue_ids), list(CODES)))
    count = max(LEAST, int(len(resting) * SHARE))
    asked = {row[0] for row in random.sample(resting, min(count, len(resting)))}
    left = {queue: rows for queue, rows in resting if queue not in asked}
    return Left(left.keys(), [row for rows in left.values() for row in rows])
