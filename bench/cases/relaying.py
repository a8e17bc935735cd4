"""How fast committed outgoing messages come to Kafka, and how old they grow at half that load."""

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
    """From the committed outbox row to the commit that marks it PUBLISHED."""
    count = QUICK_COUNT if ground.quick else COUNT
    with ground.rig("relay") as rig:
        topic = rig.topic("relayed")
        # The configuration of an ordinary installation; its provider is what is relayed to.
        rig.configure(
            {
                "name": "in",
                "topic": rig.topic("in"),
                "kind": "continuous",
                "interface": "BenchBatch",
                "enabled": False,
            }
        )
        provider = int(rig.value("SELECT id FROM integration_provider"))
        outgoing.stock(rig, count)
        worker = _started(rig)
        used: tuple[list[cpu.Used], list[cpu.Used]] = ([], [])

        def ours() -> float:
            worker.pause()
            outgoing.empty(rig)
            outgoing.commit(rig, provider, topic, (0, count))
            meter = cpu.Meter(rig, worker)
            worker.resume()
            rig.until(lambda: not outgoing.unsent(rig), "everything is sent")
            used[0].append(meter.used())
            return facts.rate(rig, OUTBOX, SENT)

        def theirs() -> float:
            worker.pause()
            outgoing.empty(rig)
            outgoing.commit(rig, provider, topic, (0, count))
            process = rig.spawn("handwritten", ["-m", "bench.handrelay", str(provider)])
            rig.until(lambda: not process.is_alive(), "the hand-written relay has ended")
            worker.resume()
            used[1].append(cpu.Used(*rig.rows("SELECT process, session FROM bench_cpu")[0]))
            rig.write("TRUNCATE bench_cpu")
            return facts.rate(rig, OUTBOX, SENT)

        paired = run_pairs(ours, theirs, quick=ground.quick)
        ages = _ages_at_half_load(rig, (provider, topic), paired, count)
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
            **cpu.told(*used, count),
        },
    )


def _started(rig: Rig) -> Process:
    """The relay's worker, at work, and warm."""
    worker = rig.start("relay")
    Celery(broker=rig.broker_url).send_task(RELAY, queue="relay")
    held = "SELECT 1 FROM integration_relaylease WHERE watermark IS NOT NULL"
    rig.until(lambda: rig.value(held), "the relay is at work", 60)
    return worker


def _ages_at_half_load(rig: Rig, where: tuple[int, str], paired: Paired, count: int) -> list[float]:
    """Commit half of what the relay can send, in steady small portions; the rows' ages in s."""
    outgoing.empty(rig)
    portion = int(paired.value / 2 * EVERY_SECONDS)
    began = time.monotonic()
    for number, first in enumerate(range(0, count - portion, portion)):
        threading.Event().wait(max(0.0, began + number * EVERY_SECONDS - time.monotonic()))
        outgoing.commit(rig, *where, (first, first + portion))
    rig.until(lambda: not outgoing.unsent(rig), "everything is sent")
    return [age for (age,) in rig.rows(_AGES)]
