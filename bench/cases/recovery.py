"""The standstill after the process that holds the lock was killed."""

import time
from statistics import median
from typing import Final

from bench import traffic, workload
from bench.figure import Figure, below
from bench.ground import Ground
from bench.rig import Rig
from devstack import proc
from devstack.supervise import Process

BEHIND: Final = 20
_IN_STATEMENT: Final = """
SELECT l.owner FROM pg_stat_activity a JOIN integration_partitionlease l ON l.batch_pid = a.pid
WHERE a.datname = current_database() AND a.state = 'active' AND a.query LIKE '%%pg_sleep%%'
  AND l.released_at IS NULL
"""
NEXT_COMMIT: Final = """
SELECT extract(epoch FROM min(pg_xact_commit_timestamp(xmin)))::float8
FROM integration_messagetrack WHERE pg_xact_commit_timestamp(xmin) > to_timestamp(%s)
"""


def restart_after_kill(ground: Ground) -> Figure:
    """Kill the worker that holds the lock in mid-statement; a second worker is there."""
    rounds = 2 if ground.quick else 5
    with ground.rig("restart_after_kill") as rig:
        topic = rig.topic("killed")
        rig.configure(
            {"name": topic, "topic": topic, "kind": "continuous", "interface": "BenchSlow"}
        )
        workers = {name: rig.start_worker(name) for name in ("first", "second")}
        rig.start("beat")
        sample = [_round(rig, workers, topic, number) for number in range(rounds)]
        written = rig.value("SELECT count(*) FROM bench_effect")
    return Figure(
        name="restart_after_kill",
        value=max(sample),
        unit="s",
        n=rounds,
        against="from SIGKILL of the worker that holds the lock to the next commit; the longest",
        target=below("value", 3),
        claims={"none lost or doubled": written == rounds * BEHIND},
        facts={"median_s": round(median(sample), 2)},
    )


def _round(rig: Rig, workers: dict[str, Process], topic: str, number: int) -> float:
    """One kill; returns the seconds to the next commit. The dead worker is started again."""
    rig.write("UPDATE bench_control SET slow = true")
    first = number * BEHIND
    pings = [workload.ping(seq) for seq in range(first, first + BEHIND)]
    traffic.produce(rig.bootstrap, topic, pings)
    holder = _holder(rig, workers)
    killed_at = time.time()
    workers[holder].kill()
    rig.write("UPDATE bench_control SET slow = false")
    rig.until(lambda: rig.value(NEXT_COMMIT, [killed_at]), "messages flow again", 60)
    seconds = float(rig.value(NEXT_COMMIT, [killed_at])) - killed_at
    rig.until(lambda: _applied(rig) >= first + BEHIND, "the backlog is settled", 60)
    workers[holder] = rig.start_worker(holder)
    return seconds


def _holder(rig: Rig, workers: dict[str, Process]) -> str:
    """Return the worker whose pool process is in the slow statement now."""
    rig.until(lambda: rig.rows(_IN_STATEMENT), "a handler is in its slow statement", 60)
    return worker_of(str(rig.rows(_IN_STATEMENT)[0][0]), workers)


def worker_of(owner: str, workers: dict[str, Process]) -> str:
    """Return the worker to which a lease's owner belongs, one of its pool's processes."""
    pid = int(owner.partition(":")[2].partition("/")[0])
    return next(
        name for name, worker in workers.items() if worker.pid and pid in proc.tree(worker.pid)
    )


def _applied(rig: Rig) -> int:
    return int(rig.value("SELECT count(*) FROM bench_effect"))
