"""The cost of failing messages to the others, and proof that they leave no old data behind."""

import json
from typing import Any, Final

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
_HELD: Final = "SELECT count(*) FROM integration_messageerror WHERE state = 'HOLD'"
# For each key the newest message that could be applied, against what the table holds.
_STALE: Final = """
SELECT count(*) FROM bench_newest n LEFT JOIN bench_asset a USING (assetnum)
WHERE a.seq IS DISTINCT FROM n.seq
"""
# Messages that were applied although an earlier one of their key is open.
_PASSED: Final = """
SELECT count(*) FROM integration_messagetrack t WHERE t.ended = 'APPLIED' AND EXISTS (
  SELECT 1 FROM integration_messageerror e
  WHERE e.queue_id = t.queue_id AND convert_from(e.key, 'UTF8') = t.key
    AND e.state IN ('HOLD', 'PARKED') AND e."offset" < t."offset")
"""


def inbound_failing_5pct(ground: Ground) -> Figure:
    """A random 5 % fail after their statement and are due again in 30 s; the rest go on."""
    count = 6_000 if ground.quick else 20_000
    failing = workload.pick(count, 0.05, SEED)
    with ground.rig("inbound_failing_5pct") as rig:
        plain = filled(rig, "none-failing", "BenchAsset", count)
        messages = workload.with_failures(count, KEYS, failing)
        topic = rig.topic("some-failing", messages)
        some = _configured(rig, topic, count, {"retry_delay_seconds": 30})
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


def inbound_by_key_1pct(ground: Ground) -> Figure:
    """A random 1 % are held; what follows them within their key is parked, the rest go on."""
    count = 6_000 if ground.quick else 20_000
    failing = dict.fromkeys(workload.pick(count, 0.01, SEED), "held")
    out_of_order: set[int] = set()
    with ground.rig("inbound_by_key_1pct") as rig:
        messages = list(workload.with_failures(count, KEYS, failing))
        sides = {}
        for ordering in ("none", "key"):
            topic = rig.topic(f"order-{ordering}", messages, _asset_of)
            sides[ordering] = _configured(rig, topic, count, {"ordering": ordering})
        rig.start_worker()
        paired = run_pairs(
            lambda: _rate_by_key(rig, sides["key"], out_of_order),
            lambda: _rate_by_key(rig, sides["none"], set()),
            quick=ground.quick,
        )
    return Figure(
        name="inbound_by_key_1pct",
        value=paired.value,
        unit="msg/s",
        n=count,
        ratio=paired.ratio,
        against="the same messages and handler, without order within a key",
        target=at_least("ratio", 0.8),
        claims={"0 out of order": out_of_order == {0}},
        facts={**paired.facts, "held": len(failing), "out_of_order": max(out_of_order)},
    )


def _asset_of(payload: bytes) -> bytes:
    return str(json.loads(payload)["assetnum"]).encode()


def _rate_by_key(rig: Rig, queue: BenchQueue, out_of_order: set[int]) -> float:
    """All messages a second; those that were applied past an open failure of their key."""
    queue.run()
    rate = facts.rate(rig, facts.OURS)
    facts.every_one_once(rig, facts.OURS, queue.count)
    out_of_order.add(rig.value(_PASSED))
    queue.switch_off()
    return rate


def _configured(rig: Rig, topic: str, count: int, retries: dict[str, Any]) -> BenchQueue:
    """A continuous queue of `count` messages that fail as they say, switched off as yet."""
    settings = {"name": topic, "topic": topic, "kind": "continuous", "interface": "BenchAsset"}
    ids = rig.configure({**settings, "enabled": False, **retries})
    return BenchQueue(rig, ids[topic], topic, count)


def _rate(rig: Rig, queue: BenchQueue, failing: int) -> float:
    """All messages a second, the failed ones counted as settled when their row is committed."""
    queue.run()
    rate = facts.rate(rig, facts.OURS)
    facts.every_one_once(rig, facts.OURS, queue.count)
    rows = rig.value("SELECT count(*) FROM integration_messageerror WHERE state = 'RETRY'")
    if rows != failing:
        raise BenchmarkError(f"{failing} messages should wait for a retry, not {rows}")
    queue.switch_off()
    return rate


class OnePercent:
    """25 messages fail once and 25 always: rates of both sides, and what ours left behind."""

    def __init__(self, rig: Rig, count: int) -> None:
        failing = one_percent(count)
        topic = rig.topic("one-percent", workload.with_failures(count, FEW_KEYS, failing))
        retries = {"max_retries": 2, "retry_delay_seconds": 1}
        self.rig = rig
        self.queue = _configured(rig, topic, count, retries)
        self.held: set[int] = set()
        self.stale: set[int] = set()
        _expect(rig, count, failing)
        # The schedule keeps the relay going, which brings the markers of due retries.
        rig.start("beat")
        rig.start("relay")
        self.worker = rig.start_worker()

    def ours(self) -> float:
        """Good messages a second, once every failure is over."""
        self.queue.run()
        self.rig.until(lambda: _waiting(self.rig) == 0, "no failure waits for a further try")
        rate = facts.rate(self.rig, facts.OURS, f"ended IN ('APPLIED', 'SUPERSEDED') AND {GOOD}")
        self.held.add(self.rig.value(_HELD))
        self.stale.add(self.rig.value(_STALE))
        self.queue.switch_off()
        return rate

    def theirs(self) -> float:
        """The same of the hand-written loop, which sets failures aside."""
        run_handwritten(self.queue, "aside", self.worker)
        return facts.rate(self.rig, facts.THEIRS, GOOD)


def failing_1pct(ground: Ground) -> Figure:
    """25 messages fail once and 25 always; three tries one second apart, then hold."""
    count = 5_000
    with ground.rig("failing_1pct") as rig:
        sides = OnePercent(rig, count)
        paired = run_pairs(sides.ours, sides.theirs, quick=ground.quick)
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
            "25 held": sides.held == {FAILING_EACH},
            "0 stale keys": sides.stale == {0},
        },
        facts={**paired.facts, "held": max(sides.held), "stale_keys": max(sides.stale)},
    )


def one_percent(count: int) -> dict[int, str]:
    """Choose the messages that fail: one in a hundred, by turns "once" and "always"."""
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
