"""What failing messages cost the others, and whether they leave old data behind."""

import json
from typing import Final

from bench import facts, workload
from bench.cases.throughput import KEYS, filled
from bench.figure import Figure, at_least
from bench.ground import Ground
from bench.pairs import run_pairs
from bench.queue import BenchQueue, run_handwritten
from bench.rig import BenchmarkError, Rig

SEED: Final = 20_261
FEW_KEYS: Final = 100
FAILING_EACH: Final = 25
# Failing messages are spread evenly: every hundredth, by turns once and always.
EVERY: Final = 100
GOOD: Final = '"offset" NOT IN (SELECT seq FROM bench_failing)'
# For each key the newest message that could be applied, against what the table holds.
_STALE: Final = """
SELECT count(*) FROM bench_newest n LEFT JOIN bench_asset a USING (assetnum)
WHERE a.seq IS DISTINCT FROM n.seq
"""


def inbound_failing_5pct(ground: Ground) -> Figure:
    """A random 5 % fail after their statement and are due again in 30 s; the rest go on."""
    count = 6_000 if ground.quick else 20_000
    failing = workload.pick(count, 0.05, SEED)
    with ground.rig("inbound_failing_5pct") as rig:
        plain = filled(rig, "none-failing", "BenchAsset", count)
        topic = rig.topic("some-failing", workload.with_failures(count, KEYS, failing))
        ids = rig.configure(
            {
                "name": topic,
                "topic": topic,
                "kind": "continuous",
                "interface": "BenchAsset",
                "enabled": False,
                "retry_delay_seconds": 30,
            }
        )
        some = BenchQueue(rig, ids[topic], topic, count)
        rig.start_worker()
        paired = run_pairs(
            lambda: _rate(rig, some, len(failing)),
            lambda: _rate(rig, plain, 0),
            quick=ground.quick,
        )
    return Figure(
        name="inbound_failing_5pct",
        value=paired.value,
        unit="msg/s",
        n=count,
        ratio=paired.ratio,
        against="the same handler, none failing",
        target=at_least("ratio", 0.5),
        facts={**paired.facts, "failing": len(failing)},
    )


def _rate(rig: Rig, queue: BenchQueue, failing: int) -> float:
    """All messages a second, the failed ones counted as settled when their row is committed."""
    queue.run()
    found = facts.rate(rig, facts.OURS)
    facts.every_one_once(rig, facts.OURS, queue.count)
    rows = rig.value("SELECT count(*) FROM integration_messageerror WHERE state = 'RETRY'")
    if rows != failing:
        raise BenchmarkError(f"{failing} messages should wait for a retry, not {rows}")
    queue.switch_off()
    return found


def failing_1pct(ground: Ground) -> Figure:
    """25 messages fail once and 25 always; three tries one second apart, then hold."""
    count = 5_000
    failing = one_percent(count)
    held: list[int] = []
    stale: list[int] = []
    with ground.rig("failing_1pct") as rig:
        topic = rig.topic("one-percent", workload.with_failures(count, FEW_KEYS, failing))
        ids = rig.configure(
            {
                "name": topic,
                "topic": topic,
                "kind": "continuous",
                "interface": "BenchAsset",
                "enabled": False,
                "max_retries": 2,
                "retry_delay_seconds": 1,
            }
        )
        queue = BenchQueue(rig, ids[topic], topic, count)
        _expect(rig, count, failing)
        # The schedule keeps the relay going, which brings the tickets of due retries.
        rig.start("beat")
        rig.start("relay")
        worker = rig.start_worker()

        def ours() -> float:
            queue.run()
            rig.until(lambda: _waiting(rig) == 0, "no failure waits for a further try")
            found = facts.rate(rig, facts.OURS, f"ended IN ('APPLIED', 'SUPERSEDED') AND {GOOD}")
            held.append(
                rig.value("SELECT count(*) FROM integration_messageerror WHERE state = 'HOLD'")
            )
            stale.append(rig.value(_STALE))
            queue.switch_off()
            return found

        def theirs() -> float:
            run_handwritten(queue, "aside", worker)
            return facts.rate(rig, facts.THEIRS, GOOD)

        paired = run_pairs(ours, theirs, quick=ground.quick)
    return Figure(
        name="failing_1pct",
        value=paired.value,
        unit="msg/s",
        n=count,
        ratio=paired.ratio,
        against="hand-written loop, savepoint per message, failures set aside",
        target=at_least("ratio", 0.7),
        claims={
            "value > 1000": paired.value > 1_000,
            "25 held": set(held) == {FAILING_EACH},
            "0 stale keys": set(stale) == {0},
        },
        facts={**paired.facts, "held": max(held), "stale_keys": max(stale)},
    )


def one_percent(count: int) -> dict[int, str]:
    """Which messages fail: one in a hundred, by turns "once" and "always"."""
    places = range(EVERY // 2, count, EVERY)
    return {seq: ("once", "always")[turn % 2] for turn, seq in enumerate(places)}


def _waiting(rig: Rig) -> int:
    return int(
        rig.value(
            "SELECT count(*) FROM integration_messageerror "
            "WHERE state IN ('RETRY', 'READY', 'PROCESSING')"
        )
    )


def _expect(rig: Rig, count: int, failing: dict[int, str]) -> None:
    """Store which messages fail, and which message every key must end with."""
    newest = {}
    for seq in range(count):
        if failing.get(seq) != "always":
            newest[json.loads(workload.asset(seq, FEW_KEYS))["assetnum"]] = seq
    rig.write("CREATE TABLE bench_failing (seq bigint PRIMARY KEY)")
    rig.write("INSERT INTO bench_failing SELECT unnest(%s::bigint[])", [list(failing)])
    rig.write("CREATE TABLE bench_newest (assetnum text PRIMARY KEY, seq bigint NOT NULL)")
    rig.write(
        "INSERT INTO bench_newest SELECT * FROM unnest(%s::text[], %s::bigint[])",
        [list(newest), list(newest.values())],
    )
