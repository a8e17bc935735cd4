"""Latencies: from the moment messages were sent to the commit of their effect."""

import contextlib
import random
import time
from typing import Final

from bench import traffic, workload
from bench.rig import Rig

# Both clocks are this machine's: the sender's in the payload, the server's at the commit.
_WAITS: Final = """
SELECT extract(epoch FROM pg_xact_commit_timestamp(xmin) - sent_at)::float8
FROM bench_effect WHERE queue = ANY(%s) AND seq >= %s
"""


class Sender:
    """Sends pings at random moments, each at once."""

    def __init__(self, rig: Rig, topics: list[str], seed: int) -> None:
        self.topics = topics
        self.sent = 0
        self._producer = traffic.producer(rig.bootstrap, **{"linger.ms": 0})
        self._chance = random.Random(seed)

    def send(self, topic: str) -> None:
        with contextlib.suppress(BufferError):
            self._producer.produce(topic, value=workload.ping(self.sent), partition=0)
            self.sent += 1
        self._producer.poll(0)

    def send_for(self, count: int, mean_seconds: float) -> None:
        """Send `count` pings to random topics; the pauses between them are random as well."""
        for _ in range(count):
            self.send(self._chance.choice(self.topics))
            time.sleep(self._chance.expovariate(1 / mean_seconds))
        self._producer.flush(30)


def waits(rig: Rig, queues: list[str], from_seq: int = 0) -> list[float]:
    """Seconds from sending to commit, of every arrived message of these queues."""
    return [seconds for (seconds,) in rig.rows(_WAITS, [queues, from_seq])]
