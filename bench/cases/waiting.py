"""A handler that waits 5 ms for each message: how much faster many side by side are than one."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from bench import workload
from bench.figure import Figure, at_least
from bench.ground import Ground
from bench.pairs import run_pairs
from bench.queue import BenchQueue
from bench.rig import Rig

PAIRS: Final = 3
MOST_PER_SECOND: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """One way of calling it many times at once.

    `fill` makes the topic; `rate` counts messages a second, so many at a time, for so many seconds.
    """

    name: str
    many: int
    batch: int
    fill: Callable[[Rig, list[bytes]], str]
    rate: Callable[[BenchQueue, int, float], float]
    against: str
    ratio: float
    worker: Mapping[str, int] = field(default_factory=dict)


def many_and_one(ground: Ground, way: Waiting) -> Figure:
    """The same queue and worker, with many calls at once and with one at a time."""
    seconds = 3.0 if ground.quick else 8.0
    count = int(MOST_PER_SECOND * way.many * (seconds + 8))
    with ground.rig(way.name) as rig:
        topic = way.fill(rig, [workload.ping(seq) for seq in range(count)])
        settings = {
            "name": topic,
            "topic": topic,
            "kind": "continuous",
            "interface": "BenchWait",
            "batch_size": way.batch,
            "enabled": False,
        }
        queue = BenchQueue(rig, rig.configure(settings)[topic], topic, count)
        rig.start_worker("worker", None, **way.worker)
        paired = run_pairs(
            lambda: way.rate(queue, way.many, seconds),
            lambda: way.rate(queue, 1, seconds),
            quick=ground.quick,
            pairs=PAIRS,
        )
    return Figure(
        name=way.name,
        value=paired.value,
        unit="msg/s",
        n=len(paired.ours),
        ratio=paired.ratio,
        against=way.against,
        target=at_least("ratio", way.ratio),
        facts=paired.facts,
    )
