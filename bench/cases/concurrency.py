"""One partition in several threads: how much faster a handler that waits becomes."""

import json
import time
from typing import Final

from bench.cases.waiting import Waiting, many_and_one
from bench.figure import Figure
from bench.ground import Ground
from bench.queue import BenchQueue
from bench.rig import Rig

THREADS: Final = 8
# As queues have it. Either side is counted from commit to commit.
BATCH: Final = 500
KEYS: Final = 997


def concurrency_8(ground: Ground) -> Figure:
    """A handler that waits 5 ms for each message, eight calls at once and one at a time."""
    way = Waiting(
        name="concurrency_8",
        many=THREADS,
        batch=BATCH,
        fill=_fill,
        rate=_rate,
        against="the same queue of one partition with a concurrency of 1",
        ratio=6,
    )
    return many_and_one(ground, way)


def _fill(rig: Rig, pings: list[bytes]) -> str:
    return rig.topic("concurrent", pings, key_of=_key)


def _key(payload: bytes) -> bytes:
    return str(json.loads(payload)["seq"] % KEYS).encode()


def _rate(queue: BenchQueue, concurrency: int, seconds: float) -> float:
    """Messages a second, from one commit to another so many seconds later."""
    queue.rewind()
    queue.rig.write(
        "UPDATE integration_queue SET concurrency = %s, changed_at = clock_timestamp() "
        "WHERE id = %s",
        [concurrency, queue.id],
    )
    queue.switch_on()
    _next_commit(queue)
    first = _next_commit(queue)
    began = time.monotonic()
    time.sleep(seconds)
    last = _next_commit(queue)
    took = time.monotonic() - began
    queue.switch_off()
    return (last - first) / took


def _next_commit(queue: BenchQueue) -> int:
    """Return the position once it has moved."""
    before = queue.position()
    queue.rig.until(lambda: queue.position() != before, "the next commit", 60)
    return queue.position()
