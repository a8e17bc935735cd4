"""The cost of tracking: the same batches with it and without it."""

import json
from typing import Final

from bench import cpu
from bench.cases.throughput import filled
from bench.figure import Figure, below
from bench.ground import Ground
from bench.pairs import run_pairs
from bench.queue import BenchQueue
from bench.rig import BenchmarkError

# What is measured is the small difference of two large figures.
PAIRS: Final = 11
INTERFACE: Final = "BenchBatch"
SEARCH_PATHS: Final = ("$.assetnum", "$.seq")
_QUEUE: Final = "UPDATE integration_queue SET tracks = %s WHERE id = %s"
_SERVICE: Final = (
    "UPDATE integration_enterpriseservice SET search_paths = %s::jsonb WHERE interface = %s"
)
# As facts.rate, by the log of batches: with tracking off there is no row a message.
_RATE: Final = """
WITH by_commit AS (
  SELECT pg_xact_commit_timestamp(xmin) AS at, sum(to_offset - from_offset + 1) AS messages
  FROM integration_batchlog GROUP BY 1
)
SELECT (sum(messages) - (array_agg(messages ORDER BY at))[1])::float8,
  extract(epoch FROM max(at) - min(at))::float8, sum(messages)::bigint
FROM by_commit
"""
_FOUND: Final = (
    "SELECT count(*), count(DISTINCT search_b), count(search_a) FROM integration_messagetrack"
)


def tracking_cost(ground: Ground) -> Figure:
    """Batches tracked with two search ids out of each payload, against the same untracked."""
    count = 15_000 if ground.quick else 90_000
    with ground.rig("tracking_cost") as rig:
        queue = filled(rig, "tracking_cost", INTERFACE, count)
        worker = rig.start_worker()
        used: dict[bool, list[cpu.Used]] = {True: [], False: []}

        def metered(*, tracks: bool) -> float:
            _set(queue, tracks=tracks)
            meter = cpu.Meter(rig, worker)
            queue.run()
            # Before its session ends with the run.
            used[tracks].append(meter.used())
            if tracks:
                _check(queue)
            return _rate(queue)

        paired = run_pairs(
            lambda: metered(tracks=True),
            lambda: metered(tracks=False),
            quick=ground.quick,
            pairs=PAIRS,
        )
    return Figure(
        name="tracking_cost",
        value=100 * (1 - paired.ratio),
        unit="%",
        n=count,
        ratio=paired.ratio,
        against="the same queue with tracking off",
        target=below("value", 25),
        facts={
            "tracked": round(paired.value),
            **paired.facts,
            **cpu.as_facts(used[True], used[False], count),
        },
    )


def _check(queue: BenchQueue) -> None:
    counts = queue.rig.rows(_FOUND)[0]
    if counts != (queue.count,) * 3:
        raise BenchmarkError(f"each of {queue.count} messages should have its ids, but: {counts}")


def _set(queue: BenchQueue, *, tracks: bool) -> None:
    queue.rig.write(_QUEUE, [tracks, queue.id])
    paths = json.dumps(SEARCH_PATHS if tracks else [])
    queue.rig.write(_SERVICE, [paths, INTERFACE])


def _rate(queue: BenchQueue) -> float:
    """Messages a second, from the first commit to the last."""
    counted, seconds, every = queue.rig.rows(_RATE)[0]
    queue.switch_off()
    if every != queue.count or not seconds:
        raise BenchmarkError(f"{every} of {queue.count} messages are in the log of batches")
    return float(counted / seconds)
