"""The delay before a message is taken: after a tick, while attached, among many queues."""

import time
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Final

from celery import Celery

from bench import latency, traffic, workload
from bench.facts import percentile
from bench.figure import Figure, below
from bench.ground import Ground
from bench.latency import Sender
from bench.rig import BenchmarkError, Rig

TICK: Final = "crontasks.tasks.tick"
RUN: Final = "crontasks.tasks.run_queue"
MANY: Final = 20
_FREE: Final = """
SELECT count(*) FROM integration_partitionlease l JOIN integration_queuepartition p
  ON p.id = l.partition_id WHERE p.queue_id = %s AND l.released_at IS NULL
"""


def tick_to_first_record(ground: Ground) -> Figure:
    """Measure from the worker's receipt of the schedule's tick to the first message's commit."""
    count = 5 if ground.quick else 20
    with ground.rig("tick_to_first_record") as rig:
        topic = rig.topic("ticked")
        ids = rig.configure(
            {
                "name": topic,
                "topic": topic,
                "kind": "continuous",
                "interface": "BenchPing",
                # Each tick finds no run attached and makes a client of its own.
                "stay_seconds": 0.5,
            }
        )
        receipts = rig.folder / "receipts.txt"
        rig.start_worker(environment={"BENCH_RECEIPTS": str(receipts)})
        rig.until(lambda: _has_run_before(rig, ids[topic]), "the first start is over")
        instance = rig.value(
            "SELECT id FROM crontasks_croninstance WHERE queue_id = %s", [ids[topic]]
        )
        app = Celery(broker=rig.broker_url)
        sample, of_run = [], []
        for seq in range(count):
            traffic.produce(rig.bootstrap, topic, [workload.ping(seq)])
            asked_at = time.time()
            app.send_task(TICK, [instance, _moment()])
            committed_at = _committed_at(rig, seq)
            sample.append(committed_at - _received_at(receipts, TICK, asked_at))
            of_run.append(committed_at - _received_at(receipts, RUN, asked_at))
            rig.until(lambda: not rig.value(_FREE, [ids[topic]]), "the run has ended")
    return Figure(
        name="tick_to_first_record",
        value=median(sample) * 1_000,
        unit="ms",
        n=count,
        against="the Celery worker's receipt of the tick",
        target=below("value", 150),
        facts={
            "from_run_queue_ms": round(median(of_run) * 1_000, 1),
            "longest_ms": round(max(sample) * 1_000, 1),
        },
    )


def _moment() -> str:
    """The tick's scheduled time, as beat would name it."""
    return datetime.fromtimestamp(time.time(), UTC).isoformat()


def _has_run_before(rig: Rig, queue_id: int) -> bool:
    taken = rig.value(
        "SELECT count(*) FROM integration_partitionlease l JOIN integration_queuepartition p "
        "ON p.id = l.partition_id WHERE p.queue_id = %s",
        [queue_id],
    )
    return bool(taken) and not rig.value(_FREE, [queue_id])


def _received_at(receipts: Path, worker: str, after: float) -> float:
    for line in receipts.read_text().splitlines():
        at, task = line.split()[:2]
        if task == worker and float(at) >= after:
            return float(at)
    raise BenchmarkError(f"the worker did not note the receipt of {worker}")


def _committed_at(rig: Rig, seq: int) -> float:
    sql = (
        "SELECT extract(epoch FROM pg_xact_commit_timestamp(xmin))::float8 "
        "FROM bench_effect WHERE seq = %s"
    )
    rig.until(lambda: rig.value(sql, [seq]), f"message {seq} is committed", 30)
    return float(rig.value(sql, [seq]))


def attached_pickup(ground: Ground) -> Figure:
    """Measure from sending to commit while a run is attached, with everything else running."""
    count = 300 if ground.quick else 2_000
    with ground.rig("attached_pickup") as rig:
        names = [rig.topic("attached"), rig.topic("beside")]
        _start_everything(rig, names)
        _warm_up(rig, names)
        sender = Sender(rig, names[:1], seed=1)
        sender.sent = 10
        sender.send_for(count, 0.02)
        rig.until(lambda: len(latency.waits(rig, names[:1], 10)) >= count, "all have arrived", 30)
        sample = latency.waits(rig, names[:1], 10)
    return Figure(
        name="attached_pickup",
        value=percentile(sample, 0.99) * 1_000,
        unit="ms p99",
        n=len(sample),
        against="from sending to commit; relay, beat, web and a second attached queue running",
        target=below("value", 100),
        claims={"none lost or doubled": len(sample) == count},
        facts={
            "p50_ms": round(median(sample) * 1_000, 1),
            "p90_ms": round(percentile(sample, 0.9) * 1_000, 1),
            "longest_ms": round(max(sample) * 1_000, 1),
        },
    )


def _start_everything(rig: Rig, names: list[str]) -> None:
    rig.configure(
        *(
            {"name": name, "topic": name, "kind": "continuous", "interface": "BenchPing"}
            for name in names
        )
    )
    rig.start("relay")
    rig.start("beat")
    rig.start_web()
    rig.start_worker(concurrency=3)


def _warm_up(rig: Rig, names: list[str]) -> None:
    """One message through every queue, so that each has been started once."""
    for name in names:
        traffic.produce(rig.bootstrap, name, [workload.ping(0)])
    rig.until(
        lambda: len(latency.waits(rig, names)) >= len(names), "every queue has been served", 120
    )


def many_queues(ground: Ground) -> Figure:
    """Twenty enabled queues share two worker slots; how long the unluckiest message waits."""
    count = 150 if ground.quick else 900
    with ground.rig("many_queues") as rig:
        names = [rig.topic(f"one-of-many-{number:02d}") for number in range(MANY)]
        rig.configure(
            *(
                {"name": name, "topic": name, "kind": "continuous", "interface": "BenchPing"}
                for name in names
            )
        )
        rig.start("beat")
        rig.start_worker(concurrency=2)
        _warm_up(rig, names)
        sender = Sender(rig, names, seed=2)
        sender.sent = 10
        sender.send_for(count, 0.05)
        rig.until(lambda: len(latency.waits(rig, names, 10)) >= count, "all have arrived", 60)
        sample = latency.waits(rig, names, 10)
    return Figure(
        name="many_queues",
        value=max(sample),
        unit="s",
        n=len(sample),
        against="from sending to commit; 20 queues, worker concurrency 2, shipped schedule",
        target=below("value", 5),
        claims={"none lost or doubled": len(sample) == count},
        facts={
            "p50_s": round(median(sample), 2),
            "p99_s": round(percentile(sample, 0.99), 2),
        },
    )
