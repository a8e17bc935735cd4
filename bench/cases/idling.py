"""A thousand queues to which nothing comes: what they cost, and how soon one of them notices."""

import time
from statistics import median
from typing import Final

from bench import cpu, latency
from bench.facts import percentile
from bench.figure import Figure, below
from bench.ground import Ground
from bench.latency import Sender
from bench.rig import Rig
from devstack import proc
from devstack.supervise import Process

QUEUES: Final = 1_000
QUICK_QUEUES: Final = 100
SETTLES_SECONDS: Final = 600.0
PICKUP_SECONDS: Final = 0.5
# What was idle a moment ago is watched more closely for some twenty seconds.
QUIET_SECONDS: Final = 30.0
_NEVER_TAKEN: Final = """
SELECT count(*) FROM integration_queuepartition p WHERE NOT EXISTS (
  SELECT 1 FROM integration_partitionlease l WHERE l.partition_id = p.id)
"""
_AT_WORK: Final = """
SELECT (SELECT count(*) FROM integration_partitionlease WHERE released_at IS NULL)
     + (SELECT count(*) FROM integration_queue WHERE start_requested_at IS NOT NULL)
"""
_WATCHED: Final = """
SELECT 1 FROM integration_provider WHERE idle_watched_at > clock_timestamp() - interval '3 s'
"""


def idle_1000(ground: Ground) -> Figure:
    """Worker, relay and beat with their shipped settings, beside a thousand idle queues."""
    queues = QUICK_QUEUES if ground.quick else QUEUES
    seconds = 10.0 if ground.quick else 45.0
    count = 20 if ground.quick else 150
    with ground.rig("idle_1000") as rig:
        rig.manage("bench_idle", "idle", str(queues))
        ours = {
            "worker": rig.start_worker(),
            "relay": rig.start("relay"),
            "beat": rig.start("beat"),
        }
        rig.until(lambda: not rig.value(_NEVER_TAKEN), "each queue was started", SETTLES_SECONDS)
        rig.until(lambda: not rig.value(_AT_WORK), "no run is attached or wanted", SETTLES_SECONDS)
        rig.until(lambda: rig.value(_WATCHED), "the idle queues are watched", 60)
        time.sleep(0 if ground.quick else QUIET_SECONDS)
        spent = _spent(rig, ours, seconds)
        names = [f"idle-{number:04d}" for number in range(queues)]
        sender = Sender(rig, names, seed=3)
        sender.send_for(count, PICKUP_SECONDS)
        rig.until(lambda: len(latency.waits(rig, names)) >= count, "all have arrived", 60)
        sample = latency.waits(rig, names)
    return Figure(
        name="idle_1000",
        value=100 * sum(spent.values()),
        unit="% of a core",
        n=queues,
        against="worker, relay, beat and the database's share for them; nothing comes",
        target=below("value", 5),
        claims={
            "none lost or doubled": len(sample) == count,
            "pick-up p99 < 500 ms": percentile(sample, 0.99) < PICKUP_SECONDS,
        },
        facts={
            **{f"{name}_percent": round(100 * share, 2) for name, share in spent.items()},
            "pickup_p50_ms": round(median(sample) * 1_000),
            "pickup_p99_ms": round(percentile(sample, 0.99) * 1_000),
            "pickup_longest_ms": round(max(sample) * 1_000),
        },
    )


def _spent(rig: Rig, ours: dict[str, Process], seconds: float) -> dict[str, float]:
    """The share of a processor that each part takes in these seconds, and their sessions.

    Sessions that end meanwhile count: the server's first process has their time then.
    """
    began, before = time.monotonic(), _now(rig, ours)
    time.sleep(seconds)
    after, took = _now(rig, ours), time.monotonic() - began
    return {name: (after[name] - before[name]) / took for name in after}


def _now(rig: Rig, ours: dict[str, Process]) -> dict[str, float]:
    pids = {name: proc.tree(process.pid or 0) for name, process in ours.items()}
    sessions = [pid for (pid,) in rig.rows(cpu.SESSIONS)]
    pids["database"] = [*sessions, cpu.parent_of(sessions[0])]
    return {name: sum(map(cpu.with_ended_of, each)) for name, each in pids.items()}
