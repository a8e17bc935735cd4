"""The speed of committed outgoing messages into Kafka, and their age at half that load."""

import threading
import time
from typing import Final

from celery import Celery

from bench import cpu, facts, outgoing
from bench.facts import percentile
from bench.figure import Figure, at_least
from bench.ground import Ground
from bench.pairs import Paired, run_pairs
from bench.rig import Rig
from devstack.supervise import Process

RELAY: Final = "crontasks.tasks.run_relay"
OUTBOX: Final = "integration_outboxrow"
SENT: Final = "state = 'PUBLISHED'"
COUNT: Final = 100_000
QUICK_COUNT: Final = 40_000
# At half load: so often a transaction commits its share, as many small ones would.
EVERY_SECONDS: Final = 0.05
AGE_LIMIT_MS: Final = 500
_AGES: Final = """
SELECT extract(epoch FROM pg_xact_commit_timestamp(xmin) - created_at)::float8
FROM integration_outboxrow
"""


def relay(ground: Ground) -> Figure:
    """Measure from the committed outbox row to the commit that marks it PUBLISHED."""
    count = QUICK_COUNT if ground.quick else COUNT
    with ground.rig("relay") as rig:
        sides = Sides(rig, count)
        paired = run_pairs(sides.ours, sides.theirs, quick=ground.quick)
        ages = sides.ages_at_half_load(paired)
    age = percentile(ages, 0.99) * 1_000
    return Figure(
        name="relay",
        value=paired.value,
        unit="msg/s",
        n=count,
        ratio=paired.ratio,
        against="hand-written loop, the same rows in Kafka transactions of 5,000",
        target=at_least("ratio", 0.7),
        claims={
            "25,000 msg/s": paired.value >= 25_000,
            f"p99 age at half load < {AGE_LIMIT_MS} ms": age < AGE_LIMIT_MS,
        },
        facts={
            **paired.facts,
            "p99_age_ms": round(age),
            "median_age_ms": round(percentile(ages, 0.5) * 1_000),
            "aged": len(ages),
            **cpu.as_facts(sides.ours_used, sides.theirs_used, count),
        },
    )


class Sides:
    """The shipped relay and the hand-written one, each with the same rows in the same table."""

    def __init__(self, rig: Rig, count: int) -> None:
        self.rig, self.count = rig, count
        self.topic = rig.topic("relayed")
        # The configuration of an ordinary installation; its provider is what is relayed to.
        queue = {"name": "in", "topic": rig.topic("in"), "kind": "continuous"}
        rig.configure({**queue, "interface": "BenchBatch", "enabled": False})
        self.provider = int(rig.value("SELECT id FROM integration_provider"))
        outgoing.stock(rig, count)
        self.worker = _started(rig)
        self.ours_used: list[cpu.Used] = []
        self.theirs_used: list[cpu.Used] = []

    def ours(self) -> float:
        self._lay_out()
        meter = cpu.Meter(self.rig, self.worker)
        self.worker.resume()
        self.rig.until(lambda: not outgoing.unsent(self.rig), "everything is sent")
        self.ours_used.append(meter.used())
        return facts.rate(self.rig, OUTBOX, SENT)

    def theirs(self) -> float:
        self._lay_out()
        process = self.rig.spawn("handwritten", ["-m", "bench.handrelay", str(self.provider)])
        self.rig.until(lambda: not process.is_alive(), "the hand-written relay has ended")
        self.worker.resume()
        noted = self.rig.rows("SELECT process, session FROM bench_cpu")
        self.theirs_used.append(cpu.Used(*noted[0]))
        self.rig.write("TRUNCATE bench_cpu")
        return facts.rate(self.rig, OUTBOX, SENT)

    def _lay_out(self) -> None:
        """The rows of one run, with our relay stopped."""
        self.worker.pause()
        outgoing.empty(self.rig)
        outgoing.commit(self.rig, self.provider, self.topic, (0, self.count))

    def ages_at_half_load(self, paired: Paired) -> list[float]:
        """Commit half of what the relay can send, in steady small portions; the rows' ages in s."""
        outgoing.empty(self.rig)
        portion = int(paired.value / 2 * EVERY_SECONDS)
        began = time.monotonic()
        for number, first in enumerate(range(0, self.count - portion, portion)):
            threading.Event().wait(max(0.0, began + number * EVERY_SECONDS - time.monotonic()))
            places = first, first + portion
            outgoing.commit(self.rig, self.provider, self.topic, places)
        self.rig.until(lambda: not outgoing.unsent(self.rig), "everything is sent")
        return [age for (age,) in self.rig.rows(_AGES)]


def _started(rig: Rig) -> Process:
    """The relay's worker, at work, and warm."""
    worker = rig.start("relay")
    Celery(broker=rig.broker_url).send_task(RELAY, queue="relay")
    held = "SELECT 1 FROM integration_relaylease WHERE watermark IS NOT NULL"
    rig.until(lambda: rig.value(held), "the relay is at work", 60)
    return worker
