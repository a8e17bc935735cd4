"""One partition in several threads: how much faster a handler that waits becomes."""

import json
import time
from typing import Final

from bench import workload
from bench.figure import Figure, at_least
from bench.ground import Ground
from bench.pairs import run_pairs
from bench.queue import BenchQueue

THREADS: Final = 8
PAIRS: Final = 3
# As queues have it. Either side is counted from commit to commit.
BATCH: Final = 500
MOST_PER_SECOND: Final = 200
KEYS: Final = 997


def concurrency_8(ground: Ground) -> Figure:
    """A handler that waits 5 ms for each message, eight calls at once and one at a time."""
    seconds = 3.0 if ground.quick else 8.0
    count = int(MOST_PER_SECOND * THREADS * (seconds + 8))
    with ground.rig("concurrency_8") as rig:
        pings = [workload.ping(seq) for seq in range(count)]
        topic = rig.topic("beside", pings, key_of=_key)
        settings = {
            "name": topic,
            "topic": topic,
            "kind": "continuous",
            "interface": "BenchWait",
            "batch_size": BATCH,
            "enabled": False,
        }
        queue = BenchQueue(rig, rig.configure(settings)[topic], topic, count)
        rig.start_worker()
        paired = run_pairs(
            lambda: _rate(queue, THREADS, seconds),
            lambda: _rate(queue, 1, seconds),
            quick=ground.quick,
            pairs=PAIRS,
        )
    return Figure(
        name="concurrency_8",
        value=paired.value,
        unit="msg/s",
        n=len(paired.ours),
        ratio=paired.ratio,
        against="the same queue of one partition with a concurrency of 1",
        target=at_least("ratio", 6),
        facts=paired.facts,
    )


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
