"""The speed of records sent by a pooled connection, against the bare client."""

import json
from typing import Final

from bench.figure import Figure, at_least
from bench.ground import Ground
from bench.pairs import run_pairs
from bench.rig import Rig
from bench.traffic import make_topic

COUNT: Final = 200_000
QUICK_COUNT: Final = 50_000
KEYS: Final = 2_000


def pool(ground: Ground) -> Figure:
    """Send from one process: a session of a looked-up factory, or a producer with its settings."""
    count = QUICK_COUNT if ground.quick else COUNT
    with ground.rig("pool") as rig:
        make_topic(rig.bootstrap, "pooled")
        rig.configure()
        paired = run_pairs(
            lambda: _sent(rig, "pooled", count),
            lambda: _sent(rig, "bare", count),
            quick=ground.quick,
        )
    return Figure(
        name="pool",
        value=paired.value,
        unit="msg/s",
        n=count,
        ratio=paired.ratio,
        against="confluent_kafka.Producer with the same settings, one flush at the end",
        target=at_least("ratio", 0.8),
        facts=paired.facts,
    )


def _sent(rig: Rig, side: str, count: int) -> float:
    """Messages a second of one side, in a process of its own."""
    words = ["bench_send", side, "pooled", str(count), str(KEYS)]
    return float(json.loads(rig.manage(*words).splitlines()[-1]))
