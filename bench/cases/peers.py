"""Other programs at the same work: how fast they are, and what SIGKILLs make of it.

Every message becomes an upsert by its key, and a row of its own that nothing keeps from being
written twice: what is missing there was lost, what is there twice was doubled.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from bench import facts
from bench.cases.throughput import filled
from bench.figure import Figure
from bench.ground import Ground
from bench.pairs import run_pairs
from bench.peers import environment
from bench.queue import BenchQueue
from bench.rig import Rig
from devstack import paths
from devstack.supervise import Command, Process

EFFECTS: Final = "bench_effect"
# Longer than the slowest takes to notice that a member of its group has died.
STILL_SECONDS: Final = 75.0
# Theirs take a minute or two each.
PAIRS: Final = 3
KILLS: Final = 3
_COUNTS: Final = "SELECT count(DISTINCT seq), count(*) FROM bench_effect"
# From the kill on, the longest time between two commits.
_STANDSTILL: Final = """
SELECT max(extract(epoch FROM at - before))::float8 FROM (
  SELECT at, coalesce(lag(at) OVER (ORDER BY at), to_timestamp(%s)) AS before FROM (
    SELECT DISTINCT pg_xact_commit_timestamp(xmin) AS at FROM bench_effect
  ) commits WHERE at BETWEEN to_timestamp(%s) AND to_timestamp(%s)
) gaps
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """One program: its words for Python, and the handler of ours that does the same work."""

    name: str
    against: str
    interface: str
    words: Sequence[str]
    count: int
    variables: Mapping[str, str] = field(default_factory=dict)

    def run(self, ground: Ground) -> Figure:
        """Measure the rates in pairs, then kill each side on its way."""
        # Made before anything is measured.
        environment.python()
        count = self.count // 4 if ground.quick else self.count
        with ground.rig(self.name) as rig:
            queue = filled(rig, self.name, self.interface, count)
            worker = rig.start_worker()
            paired = run_pairs(
                lambda: _ours(queue),
                lambda: self._theirs(queue, worker),
                quick=ground.quick,
                pairs=PAIRS,
            )
            kills = 1 if ground.quick else KILLS
            worker.kill()
            rig.start("beat")
            queue.rewind()
            theirs = _killed(queue, lambda: self._begin(queue, "killed"), kills)
            queue.rewind()
            queue.switch_on()
            ours = _killed(queue, rig.start_worker, kills)
        return Figure(
            name=self.name,
            value=paired.value,
            unit="msg/s",
            n=count,
            ratio=paired.ratio,
            against=self.against,
            claims={"we lost and doubled nothing": not (ours["lost"] or ours["doubled"])},
            facts={**paired.facts, "killed": ours, "against_killed": theirs},
        )

    def _theirs(self, queue: BenchQueue, worker: Process) -> float:
        """Read the topic from its beginning, in a group that nobody knows yet."""
        queue.empty_tables()
        worker.pause()
        try:
            process = self._begin(queue, f"rate-{time.time():.0f}")
            queue.rig.until(
                partial(_has_come_to, queue.rig, queue.count), f"{self.name} is through"
            )
            process.kill()
        finally:
            worker.resume()
        return facts.rate(queue.rig, EFFECTS)

    def _begin(self, queue: BenchQueue, group: str) -> Process:
        variables = {
            "BENCH_TOPIC": queue.topic,
            "BENCH_GROUP": f"{self.name}-{group}",
            **self.variables,
        }
        command = Command(
            argv=[environment.python(), *self.words],
            environment={**queue.rig.environment, **variables},
            folder=paths.ROOT,
        )
        return queue.rig.begin(self.name, command)


def _ours(queue: BenchQueue) -> float:
    queue.run()
    rate = facts.rate(queue.rig, EFFECTS)
    queue.switch_off()
    return rate


def _killed(queue: BenchQueue, start: Callable[[], Process], kills: int) -> dict[str, object]:
    """Kill it with all its processes so often on the way, and start it again at once."""
    rig = queue.rig
    process = start()
    moments = []
    for number in range(kills):
        place = queue.count * (number + 1) // (kills + 1)
        rig.until(partial(_has_come_to, rig, place), f"{place} messages are there")
        moments.append(time.time())
        process.kill()
        process = start()
    _settle(rig, queue.count)
    process.kill()
    [(seen, written)] = rig.rows(_COUNTS)
    return {
        "lost": queue.count - seen,
        "doubled": written - seen,
        "standstills_s": [
            _standstill(rig, killed_at, before)
            for killed_at, before in zip(moments, [*moments[1:], time.time()], strict=True)
        ],
    }


def _standstill(rig: Rig, killed_at: float, before: float) -> float | None:
    """Seconds from the kill, or from the commit that was under way, to the next commit."""
    found = rig.value(_STANDSTILL, [killed_at, killed_at, before])
    return None if found is None else round(found, 1)


def _settle(rig: Rig, count: int) -> None:
    """Wait until every message is there, or nothing has come for long."""
    before, still_since = 0, time.monotonic()
    while time.monotonic() - still_since < STILL_SECONDS:
        [(seen, written)] = rig.rows(_COUNTS)
        if seen == count:
            return
        if written != before:
            before, still_since = written, time.monotonic()
        time.sleep(0.1)


def _has_come_to(rig: Rig, place: int) -> bool:
    [(seen, _)] = rig.rows(_COUNTS)
    return bool(seen >= place)


def peers_faststream(ground: Ground) -> Figure:
    """FastStream, a message at a time, at least once."""
    return Peer(
        name="peers_faststream",
        against="FastStream: a transaction for each message, offset committed after it",
        interface="BenchRepair",
        words=["-m", "bench.peers.faststream_side", "each"],
        count=8_000,
    ).run(ground)


def peers_faststream_batch(ground: Ground) -> Figure:
    """FastStream, up to 500 messages at a time, at least once."""
    return Peer(
        name="peers_faststream_batch",
        against="FastStream with batch=True: a transaction for up to 500 messages, then the offset",
        interface="BenchHistory",
        words=["-m", "bench.peers.faststream_side", "batch"],
        count=100_000,
    ).run(ground)


def peers_faststream_default(ground: Ground) -> Figure:
    """FastStream as it is unless told otherwise: offsets are committed by the clock."""
    return Peer(
        name="peers_faststream_default",
        against="FastStream with its default, ACK_FIRST: a transaction for each message",
        interface="BenchRepair",
        words=["-m", "bench.peers.faststream_side", "each"],
        count=8_000,
        variables={"BENCH_ACK": "ACK_FIRST"},
    ).run(ground)


def peers_django_kafka(ground: Ground) -> Figure:
    """django-kafka, a message at a time, at least once."""
    return Peer(
        name="peers_django_kafka",
        against="django-kafka: transaction.atomic() for each message, offset stored after it",
        interface="BenchRepair",
        words=["-m", "django", "kafka_consume"],
        count=8_000,
        variables={"DJANGO_SETTINGS_MODULE": "bench.peers.django_side.settings"},
    ).run(ground)
