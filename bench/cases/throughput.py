"""Sluice against a hand-written loop on the same topic: the shape of four benchmarks."""

from dataclasses import dataclass

from bench import cpu, facts, workload
from bench.figure import Figure, Target
from bench.ground import Ground
from bench.pairs import run_pairs
from bench.queue import BenchQueue, run_handwritten
from bench.rig import Rig

KEYS = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One workload: who takes it on our side, which loop on the other, how many messages."""

    name: str
    interface: str
    loop: str
    against: str
    count: int
    quick_count: int
    target: Target

    def run(self, ground: Ground) -> Figure:
        count = self.quick_count if ground.quick else self.count
        with ground.rig(self.name) as rig:
            queue = filled(rig, self.name, self.interface, count)
            worker = rig.start_worker()
            ours_used: list[cpu.Used] = []
            theirs_used: list[cpu.Used] = []

            def ours() -> float:
                meter = cpu.Meter(rig, worker)
                queue.run()
                ours_used.append(meter.used())
                rate = facts.rate(rig, facts.OURS)
                facts.every_one_once(rig, facts.OURS, count)
                queue.switch_off()
                return rate

            def theirs() -> float:
                run_handwritten(queue, self.loop, worker)
                theirs_used.append(cpu.Used(*rig.rows("SELECT process, session FROM bench_cpu")[0]))
                rate = facts.rate(rig, facts.THEIRS)
                facts.every_one_once(rig, facts.THEIRS, count)
                return rate

            paired = run_pairs(ours, theirs, quick=ground.quick)
        return Figure(
            name=self.name,
            value=paired.value,
            unit="msg/s",
            n=count,
            ratio=paired.ratio,
            against=self.against,
            target=self.target,
            facts={**paired.facts, **cpu.as_facts(ours_used, theirs_used, count)},
        )


def filled(rig: Rig, name: str, interface: str, count: int) -> BenchQueue:
    """A continuous queue with shipped settings on a topic full of assets, switched off."""
    topic = rig.topic(name, workload.assets(count, KEYS))
    ids = rig.configure(
        {
            "name": name,
            "topic": topic,
            "kind": "continuous",
            "interface": interface,
            "enabled": False,
        }
    )
    return BenchQueue(rig, ids[name], topic, count)
