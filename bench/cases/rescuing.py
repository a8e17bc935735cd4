"""The speed at which messages that are about to expire are copied into the database."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from statistics import median
from typing import Final

from celery import Celery

from bench import cpu, traffic, workload
from bench.figure import Figure, at_least
from bench.ground import Ground
from bench.rig import Rig

TICK: Final = "crontasks.tasks.tick"
COUNT: Final = 200_000
QUICK_COUNT: Final = 60_000
RUNS: Final = 5
QUICK_RUNS: Final = 2
BYTES: Final = 500
KEYS: Final = 10_000
# Of the seven days that the topic keeps them, less than one is left.
AGE_SECONDS: Final = 6.5 * 86_400
LIMIT_MB: Final = 1_024
_INSTANCE: Final = "SELECT id FROM crontasks_croninstance WHERE task = 'rescue'"
_DONE: Final = """
SELECT duration_seconds, (counts ->> 'rescued')::int FROM crontasks_cronrun
WHERE instance_id = %s AND ended_at IS NOT NULL ORDER BY id DESC LIMIT 1
"""
_STANDS: Final = """
SELECT count(*), count(DISTINCT "offset"), min("offset"), max("offset")
FROM integration_rescuedrecord
"""


def rescue(ground: Ground) -> Figure:
    """Measure the whole run of the cron task: looking, reading, copying, each piece committed."""
    count = QUICK_COUNT if ground.quick else COUNT
    with ground.rig("rescue") as rig:
        side = Side(rig, count)
        side.run()
        rates = [side.run() for _ in range(QUICK_RUNS if ground.quick else RUNS)]
        stands = rig.rows(_STANDS)[0]
    return Figure(
        name="rescue",
        value=median(rates),
        unit="msg/s",
        n=count,
        against="the run of the cron task, from its beginning to its end",
        target=at_least("value", 20_000),
        claims={"each record stands once": stands == (count, count, 0, count - 1)},
        facts={
            "bytes_each": BYTES,
            "slowest": round(min(rates)),
            "cpu_us": [
                round(median(part) / count * 1e6, 1) for part in zip(*side.used, strict=True)
            ],
        },
    )


class Side:
    """A queue that is switched off, on a topic that is about to forget all of it."""

    def __init__(self, rig: Rig, count: int) -> None:
        self.rig, self.count = rig, count
        topic = rig.topic("rescued")
        at = int((time.time() - AGE_SECONDS) * 1_000)
        traffic.produce(rig.bootstrap, topic, _payloads(count), timestamp_ms=at)
        queue = {"name": topic, "topic": topic, "kind": "continuous", "interface": "BenchBatch"}
        rig.configure({**queue, "enabled": False, "rescue_limit_mb": LIMIT_MB})
        self.worker = rig.start_worker()
        self.used: list[cpu.Used] = []
        self.instance = int(rig.value(_INSTANCE))

    def run(self) -> float:
        """Rescue all of it once more; messages a second."""
        self.rig.write("TRUNCATE integration_rescue, integration_rescuedrecord, crontasks_cronrun")
        self.rig.write("UPDATE integration_queuepartition SET rescued_to = NULL")
        self.rig.write("CHECKPOINT")
        meter = cpu.Meter(self.rig, self.worker)
        moment = datetime.fromtimestamp(time.time(), UTC).isoformat()
        Celery(broker=self.rig.broker_url).send_task(TICK, [self.instance, moment])
        self.rig.until(lambda: self.rig.rows(_DONE, [self.instance]), "the rescue has ended")
        self.used.append(meter.used())
        seconds, rescued = self.rig.rows(_DONE, [self.instance])[0]
        return int(rescued) / float(seconds)


def _payloads(count: int) -> Iterator[bytes]:
    for seq in range(count):
        yield workload.asset(seq, KEYS).ljust(BYTES)
