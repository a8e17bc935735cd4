"""Two statements for each batch, and four partitions: by one run, and by as many as there are."""

import json
from statistics import median
from typing import Final
from zlib import crc32

from bench import cpu, facts, traffic, workload
from bench.cases.throughput import KEYS
from bench.figure import Figure, at_least
from bench.ground import Ground
from bench.pairs import run_pairs
from bench.queue import BenchQueue, run_beside
from bench.rig import BenchmarkError, Rig
from devstack.supervise import Process

PARTITIONS: Final = 4
COUNT: Final = 120_000
QUICK_COUNT: Final = 16_000
ROUNDS: Final = 3
_COUNTS: Final = 'SELECT count(*), count(DISTINCT (partition, "offset")) FROM '


def inbound_two_statements(ground: Ground) -> Figure:
    """Measure one run against a loop of one process; then as many runs as partitions."""
    count = QUICK_COUNT if ground.quick else COUNT
    with ground.rig("inbound_two_statements") as rig:
        sides = Sides(rig, count)
        paired = run_pairs(sides.ours, sides.theirs, quick=ground.quick)
        used = cpu.as_facts(sides.ours_used, sides.theirs_used, count)
        spread = [sides.spread() for _ in range(1 if ground.quick else ROUNDS)]
    return Figure(
        name="inbound_two_statements",
        value=paired.value,
        unit="msg/s",
        n=count,
        ratio=paired.ratio,
        against="hand-written loop over the four partitions, the same three statements a batch",
        target=at_least("ratio", 0.9),
        facts={
            **paired.facts,
            **used,
            "spread_value": round(median(spread)),
            "spread_ratio": round(median(spread) / paired.other, 3),
        },
    )


def _filled(rig: Rig, count: int) -> str:
    """A topic where all of a key is in one partition, as producers write it.

    Elsewhere runs side by side would wait for each other's rows, in no common order.
    """
    traffic.make_topic(rig.bootstrap, "history", PARTITIONS)
    in_partition: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
    for payload in workload.assets(count, KEYS):
        in_partition[crc32(json.loads(payload)["assetnum"].encode()) % PARTITIONS].append(payload)
    for partition, payloads in enumerate(in_partition):
        traffic.produce(rig.bootstrap, "history", payloads, partition=partition)
    return "history"


class Sides:
    """The shipped worker and the hand-written loop on the same topic."""

    def __init__(self, rig: Rig, count: int) -> None:
        self.rig, self.count = rig, count
        topic = _filled(rig, count)
        shape = {"kind": "continuous", "interface": "BenchHistory", "enabled": False}
        ids = rig.configure({"name": topic, "topic": topic, **shape})
        self.queue = BenchQueue(rig, ids[topic], topic, count)
        self.worker: Process = rig.start_worker()
        self.ours_used: list[cpu.Used] = []
        self.theirs_used: list[cpu.Used] = []

    def ours(self) -> float:
        rate, used = self._rate_of(1)
        self.ours_used.append(used)
        return rate

    def spread(self) -> float:
        return self._rate_of(PARTITIONS)[0]

    def _rate_of(self, workers: int) -> tuple[float, cpu.Used]:
        """By so many runs; their sessions end with them, and so are measured before."""
        self.queue.set_workers(workers)
        meter = cpu.Meter(self.rig, self.worker)
        self.queue.run()
        used = meter.used()
        rate = self._checked(facts.OURS)
        self.queue.switch_off()
        return rate, used

    def theirs(self) -> float:
        words = [self.queue.topic, str(PARTITIONS), str(self.count)]
        run_beside(self.queue, ["bench.handhistory", *words], self.worker)
        self.theirs_used.append(
            cpu.Used(*self.rig.rows("SELECT process, session FROM bench_cpu")[0])
        )
        return self._checked(facts.THEIRS)

    def _checked(self, table: str) -> float:
        """The rate, once each message is known to have been tracked once and to have its row."""
        counts = (*self.rig.rows(_COUNTS + table)[0], self.rig.value(facts.HISTORY))
        if counts != (self.count,) * 3:
            raise BenchmarkError(f"each of {self.count} messages once, but: {counts}")
        return facts.rate(self.rig, table)
