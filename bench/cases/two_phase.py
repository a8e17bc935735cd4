"""A queue that commits in two phases against the same queue with the outbox."""

import json
from typing import Final

from bench import facts, traffic, workload
from bench.figure import Figure, at_least, below
from bench.ground import Ground
from bench.pairs import run_pairs
from bench.queue import BenchQueue
from bench.rig import BenchmarkError, Rig

COUNT: Final = 60_000
QUICK_COUNT: Final = 10_000
BRANCHES: Final = 100
CHANNEL: Final = "BENCHNOTES"
TOPIC: Final = "two-phase-notes"
_SWITCH: Final = (
    "UPDATE integration_queue SET two_phase = %s, changed_at = clock_timestamp() WHERE id = %s"
)


def two_phase(ground: Ground) -> Figure:
    """A batch handler that writes one row and publishes one message for each of 500 messages."""
    count = QUICK_COUNT if ground.quick else COUNT
    with ground.rig("two_phase") as rig:
        queue = _queue(rig, count)
        rig.start_worker()
        runs = 0

        def ours() -> float:
            nonlocal runs
            runs += 1
            return _rate(queue, two_phase=True)

        paired = run_pairs(ours, lambda: _rate(queue, two_phase=False), quick=ground.quick)
        published = sum(1 for _ in traffic.committed(rig.bootstrap, TOPIC, 1))
    return Figure(
        name="two_phase",
        value=paired.value,
        unit="msg/s",
        n=count,
        ratio=paired.ratio,
        against="the same queue, batches of 500, with the outbox; the relay's work not counted",
        target=at_least("ratio", 0.5),
        claims={"each run published each message once": published == runs * count},
        facts=paired.facts,
    )


def _queue(rig: Rig, count: int) -> BenchQueue:
    traffic.make_topic(rig.bootstrap, TOPIC)
    topic = rig.topic("two_phase", map(workload.ping, range(count)))
    queue = {"name": topic, "topic": topic, "kind": "continuous", "interface": "BenchNotes"}
    notes = {"name": TOPIC, "topic": TOPIC, "kind": "continuous", "channel": CHANNEL}
    ids = rig.configure({**queue, "enabled": False}, notes)
    return BenchQueue(rig, ids[topic], topic, count)


def _rate(queue: BenchQueue, *, two_phase: bool) -> float:
    queue.rig.write(_SWITCH, [two_phase, queue.id])
    queue.run()
    rate = facts.rate(queue.rig, facts.OURS)
    facts.every_one_once(queue.rig, facts.OURS, queue.count)
    waiting = queue.rig.value("SELECT count(*) FROM integration_outboxrow")
    if waiting != (0 if two_phase else queue.count):
        raise BenchmarkError(f"{waiting} rows in the outbox; the other way was measured")
    queue.switch_off()
    return rate


def branches_100(ground: Ground) -> Figure:
    """A hundred commits in doubt, every second one decided in Kafka, settled by one look."""
    with ground.rig("branches_100") as rig:
        traffic.make_topic(rig.bootstrap, "branches_100", BRANCHES)
        queue = {"name": "branches_100", "topic": "branches_100", "kind": "continuous"}
        ids = rig.configure({**queue, "interface": "BenchNotes", "two_phase": True})
        said = json.loads(rig.manage("bench_branches", str(ids["branches_100"])))
    return Figure(
        name="branches_100",
        value=said["seconds"],
        unit="s",
        n=BRANCHES,
        against="from the look to the last commit or rollback",
        target=below("value", 5.0),
        claims={
            "none is left": said["left"] == 0,
            "committed are those that Kafka has decided": said["is_right"],
        },
    )
