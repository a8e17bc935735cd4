"""One queue over several slots: how much faster, and how long it stands when a run leaves."""

import os
import signal
import time
from statistics import median
from typing import Final

from bench import traffic, workload
from bench.cases.recovery import NEXT_COMMIT, worker_of
from bench.cases.waiting import Waiting, many_and_one
from bench.figure import Figure, below
from bench.ground import Ground
from bench.queue import BenchQueue
from bench.rig import Rig
from devstack.supervise import Process

PARTITIONS: Final = 8
SLOTS: Final = 4
# Small batches: what is counted in the window is right to one of them for each run.
BATCH: Final = 25
_OWNERS: Final = """
SELECT count(DISTINCT l.owner) FROM integration_partitionlease l
JOIN integration_queuepartition p ON p.id = l.partition_id
WHERE p.queue_id = %s AND l.released_at IS NULL
"""
_OWNER: Final = "SELECT owner FROM integration_partitionlease WHERE released_at IS NULL"


def spread_4(ground: Ground) -> Figure:
    """A handler that waits 5 ms for each message, in four runs and in one."""
    way = Waiting(
        name="spread_4",
        many=SLOTS,
        batch=BATCH,
        fill=_fill,
        rate=_rate,
        against="the same queue of eight partitions with one worker",
        ratio=3.5,
        worker={"concurrency": SLOTS},
    )
    return many_and_one(ground, way)


def _fill(rig: Rig, pings: list[bytes]) -> str:
    return rig.spread_topic("spread", PARTITIONS, pings)


def _rate(queue: BenchQueue, workers: int, seconds: float) -> float:
    """Messages a second, once so many runs have their shares."""
    queue.rewind()
    queue.set_workers(workers)
    queue.switch_on()
    queue.rig.until(
        lambda: queue.rig.value(_OWNERS, [queue.id]) == workers, f"{workers} runs have come", 60
    )
    time.sleep(0.5)
    began, first = time.monotonic(), queue.position()
    time.sleep(seconds)
    rate = (queue.position() - first) / (time.monotonic() - began)
    queue.switch_off()
    return rate


def handover(ground: Ground) -> Figure:
    """End the worker that owns a queue, by SIGTERM; a second worker is there."""
    rounds = 2 if ground.quick else 6
    with ground.rig("handover") as rig:
        topic = rig.topic("handed-over")
        rig.configure(
            {"name": topic, "topic": topic, "kind": "continuous", "interface": "BenchPing"}
        )
        workers = {name: rig.start_worker(name) for name in ("first", "second")}
        rig.start("beat")
        graceful = [_end(rig, topic, workers, number) for number in range(rounds)]
    return Figure(
        name="handover",
        value=max(graceful),
        unit="s",
        n=rounds,
        against="from SIGTERM of the worker that owns the queue to the next commit; the longest",
        target=below("value", 1),
        facts={"median_s": round(median(graceful), 2)},
    )


def _end(rig: Rig, topic: str, workers: dict[str, Process], number: int) -> float:
    """One end; returns the seconds to the next commit. The worker is started again."""
    traffic.produce(rig.bootstrap, topic, [workload.ping(10 * number)])
    applied = "SELECT count(*) FROM bench_effect"
    rig.until(lambda: rig.value(applied) >= 2 * number + 1, "the queue is attached", 60)
    name = worker_of(str(rig.value(_OWNER)), workers)
    ended_at = time.time()
    if leaving := workers[name].pid:
        os.kill(leaving, signal.SIGTERM)
    traffic.produce(rig.bootstrap, topic, [workload.ping(10 * number + 1)])
    rig.until(lambda: rig.value(NEXT_COMMIT, [ended_at]), "messages flow again", 60)
    seconds = float(rig.value(NEXT_COMMIT, [ended_at])) - ended_at
    rig.until(lambda: not workers[name].is_alive(), "the worker has ended", 60)
    workers[name] = rig.start_worker(name)
    return seconds
