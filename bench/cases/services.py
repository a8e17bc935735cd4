"""All services from one process: how soon they work again, and how much memory they take."""

import time
from functools import partial
from statistics import median
from typing import Final

from bench import traffic, workload
from bench.figure import Figure, below
from bench.ground import Ground
from bench.rig import Rig
from bench.usage import megabytes_of

SERVICES: Final = ("manage.py", "run_services", "--slots", "4")
SLOTS: Final = 4
_COMMITTED: Final = (
    "SELECT extract(epoch FROM pg_xact_commit_timestamp(xmin))::float8 "
    "FROM bench_effect WHERE seq = %s"
)


def restart_all(ground: Ground) -> Figure:
    """Kill everything of ours at once, and start it again; the servers stay up."""
    rounds = 2 if ground.quick else 6
    with ground.rig("restart_all") as rig:
        topic = rig.topic("restarted")
        rig.configure(
            {"name": topic, "topic": topic, "kind": "continuous", "interface": "BenchPing"}
        )
        services = rig.spawn("services", SERVICES)
        _await_commit(rig, topic, 0)
        sample = []
        for number in range(1, rounds + 1):
            services.kill()
            traffic.produce(rig.bootstrap, topic, [workload.ping(number)])
            began = time.time()
            services = rig.spawn("services", SERVICES)
            rig.until(partial(rig.rows, _COMMITTED, [number]), "it works again", 60)
            sample.append(float(rig.value(_COMMITTED, [number])) - began)
            time.sleep(2.0)
        written = rig.value("SELECT count(*) FROM bench_effect")
    return Figure(
        name="restart_all",
        value=max(sample),
        unit="s",
        n=rounds,
        against="from the start of worker, relay and beat to the first commit; the longest",
        target=below("value", 3),
        claims={"none lost or doubled": written == rounds + 1},
        facts={"median_s": round(median(sample), 2)},
    )


def footprint(ground: Ground) -> Figure:
    """The memory of worker, relay and beat, pages that are shared counted once."""
    count = 2_000 if ground.quick else 10_000
    with ground.rig("footprint") as rig:
        names = [rig.topic(f"at-work-{number}") for number in range(SLOTS)]
        rig.configure(
            *(
                {"name": name, "topic": name, "kind": "continuous", "interface": "BenchPing"}
                for name in names
            )
        )
        services = rig.spawn("services", SERVICES)
        for place, name in enumerate(names):
            first = place * count
            pings = map(workload.ping, range(first, first + count))
            traffic.produce(rig.bootstrap, name, pings)
        applied = "SELECT count(*) FROM bench_effect"
        rig.until(lambda: rig.value(applied) >= SLOTS * count, "all messages are applied")
        parts = megabytes_of(services.pid or 0)
    return Figure(
        name="footprint",
        value=sum(parts),
        unit="MB",
        n=len(parts),
        against="proportional memory of all processes, four slots, after each was at work",
        target=below("value", 400),
        facts={"processes_mb": [round(part) for part in sorted(parts, reverse=True)]},
    )


def _await_commit(rig: Rig, topic: str, seq: int) -> None:
    traffic.produce(rig.bootstrap, topic, [workload.ping(seq)])
    rig.until(lambda: rig.rows(_COMMITTED, [seq]), "the first message is committed", 120)
