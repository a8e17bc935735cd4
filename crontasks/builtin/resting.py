"""Queues to which nothing comes, in the lag monitor: of their topics only the ends are asked.

A topic's identity, settings and marks cost ten times as much to ask for as where its log ends. If
that has not moved since the last look, nothing else has that anybody waits for: a deleted topic has
no end any more, and an open transaction moves it. All else is looked at once a minute, in turns, so
that a thousand idle queues are never looked at together.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from integration.kafka import looks
from integration.models import Provider
from integration.store.sessions import fetch_all
from integration.store.stable_ends import CODES

WHOLE_SECONDS: Final = 60
# Each queue's minute begins at another second; one that passed since the last look is missed by
# none, however often or rarely they come.
_MINUTE: Final = (
    "floor((extract(epoch FROM {}) + p.queue_id %% %(seconds)s::int) / %(seconds)s::int)"
)
_RESTING: Final = f"""
SELECT q.id, q.topic, array_agg(p.id), array_agg(p.partition), array_agg(p.high_watermark)
FROM integration_queue q JOIN integration_queuepartition p ON p.queue_id = q.id
WHERE q.id = ANY(%(queues)s) GROUP BY q.id
HAVING bool_and(p.next_offset >= p.high_watermark AND p.oldest_waiting_at IS NULL
    AND p.state_code <> ALL(%(codes)s) AND {_MINUTE.format("p.seen_at")}
      = {_MINUTE.format("clock_timestamp()")}) AND count(p.high_watermark) = count(*)"""


class Resting(NamedTuple):
    """A queue whose partitions were read to these ends when they were looked at last."""

    queue_id: int
    topic: str
    rows: Sequence[int]
    partitions: Sequence[int]
    ends: Sequence[int]

    def is_as_in(self, ends: looks.Ends) -> bool:
        """Return whether the log of each partition ends there still."""
        there = zip(self.partitions, self.ends, strict=True)
        return all(ends.get((self.topic, partition)) == end for partition, end in there)


def unmoved(provider: Provider, queue_ids: Iterable[int]) -> list[Resting]:
    """Return the queues of a provider that need no look: nothing waits, and their ends stand still.

    Raises BrokerUnreachableError (BrokerRefusedError among them) and ProviderUnusableError.
    """
    values = {"queues": list(queue_ids), "codes": list(CODES), "seconds": WHOLE_SECONDS}
    resting = [Resting(*row) for row in fetch_all(_RESTING, values)]
    places = {(one.topic, partition) for one in resting for partition in one.partitions}
    ends = looks.ends(provider, places)
    return [one for one in resting if one.is_as_in(ends)]
