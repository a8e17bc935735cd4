"""One payment run, from its start to its account."""

import time
from collections import Counter
from typing import Any, Final

from bench import interrupting, jms, traffic
from bench.chaos import accounting as endings
from bench.faults import kills
from bench.faults.looking import Look
from bench.faults.processes import Processes
from bench.faults.sequence import Faults
from bench.faults.settling import LOOK_SECONDS, QUIET_SECONDS, State, settle
from bench.payments import accounting
from bench.payments.plan import Plan
from bench.payments.sending import Door, JmsDoor, KafkaDoor
from bench.rig import BenchmarkError, Rig
from devstack.artemis import USER, Artemis
from devstack.servers import Servers
from payments import names

PER_SECOND: Final = 120.0
# A short run is sent more slowly, so that there is time for kills.
LEAST_SECONDS: Final = 40.0
# The kills go on until so many of the payments are charged.
NEARLY: Final = 0.95
LONGEST_SECONDS: Final = 3_600.0
_CHARGED: Final = "SELECT count(DISTINCT payment) FROM payments_charge"
# A repeat may be known by the receipt of the first, and then leaves no track.
_TRACKS: Final = """
SELECT count(*), count(DISTINCT t.message_id) FILTER (WHERE q.name = %s)
FROM integration_messagetrack t JOIN integration_queue q ON q.id = t.queue_id
"""
_POSITIONS: Final = """
SELECT p.partition, p.next_offset FROM integration_queuepartition p
JOIN integration_queue q ON q.id = p.queue_id WHERE q.name = %s
"""
_OPEN: Final = endings.total("open failures", "outgoing rows")


class PaymentRun:
    """Everything of one run. `carry_out` once; then `wrong` has what went wrong, by its name."""

    def __init__(self, rig: Rig, servers: Servers, broker: Artemis, plan: Plan, seed: str) -> None:
        self.rig = rig
        self.broker = broker
        self.plan = plan
        self.look = Look(rig.database_url)
        self.processes = Processes(rig)
        self.faults = Faults(
            kills.choices(self.processes, servers, broker),
            seed,
            LONGEST_SECONDS,
            rig.folder / "faults.jsonl",
            shares=kills.SHARES,
        )
        self.wrong: dict[str, list[str]] = {}

    def carry_out(self) -> dict[str, Any]:
        """Send, kill, let everything come to its end, and return the line."""
        words = ["--jms", f"127.0.0.1:{self.broker.port}", "--user", USER]
        self.rig.manage("seed_payments", *words, stdin=f"{self.broker.password}\n")
        self.processes.start_all()
        doors = self._doors()
        began = time.monotonic()
        for each in (*doors, self.faults):
            each.start()
        try:
            self._until_nearly_over(doors)
        finally:
            for door in doors:
                door.ending.set()
            # Whatever happens: nothing is started any more once the servers end.
            self.faults.heal()
        interrupting.say(f"{self.faults.done.total()} kills; waiting for what is left")
        self.processes.start_dead()
        for door in doors:
            door.join()
            if door.failure is not None:
                raise BenchmarkError(door.failure)
        caught_up = self._until_over()
        seconds = time.monotonic() - began - QUIET_SECONDS
        forced = self.processes.stop_all()
        return self._line(forced, doors) | {
            "seconds": round(seconds, 1),
            "caught_up_seconds": caught_up,
        }

    def _doors(self) -> tuple[Door, Door]:
        seconds = max(LEAST_SECONDS, self.plan.requests / PER_SECOND)
        return (
            KafkaDoor(self.rig.bootstrap, self.plan.by_kafka, seconds),
            JmsDoor(self.broker, self.plan.by_jms, seconds),
        )

    def _until_nearly_over(self, doors: tuple[Door, Door]) -> None:
        until = time.monotonic() + LONGEST_SECONDS
        wanted = len(self.plan.payments) * NEARLY
        told = 0
        while any(door.is_alive() for door in doors) or told < wanted:
            if time.monotonic() > until or any(door.failure for door in doors):
                return
            time.sleep(LOOK_SECONDS)
            told = self.look.value(_CHARGED) or 0

    def _until_over(self) -> float:
        """Wait until nothing waits or moves, as long as something moves; returns the seconds."""
        topic = names.TOPICS[names.REQUESTS]
        records = traffic.committed(self.rig.bootstrap, topic, names.PARTITIONS)
        ends: Counter[int] = Counter()
        for record in records:
            ends[record.partition()] = max(ends[record.partition()], record.offset() + 1)
        return settle(lambda: self._state(ends))

    def _state(self, ends: Counter[int]) -> State:
        ended, by_jms = self.rig.rows(_TRACKS, [names.JMS_REQUESTS])[0]
        positions = dict(self.rig.rows(_POSITIONS, [names.REQUESTS]))
        unread = sum(max(end - positions.get(each, 0), 0) for each, end in ends.items())
        untaken = max(len({sent.message_id for sent in self.plan.by_jms}) - by_jms, 0)
        uncharged = len(self.plan.payments) - int(self.rig.value(_CHARGED))
        waiting = unread + untaken + uncharged + int(self.rig.value(_OPEN))
        return State(ended, waiting)

    def _line(self, forced: list[str], doors: tuple[Door, Door]) -> dict[str, Any]:
        left = endings.left(self.rig, endings.WITHOUT_BOOK, forced)
        untaken = len(jms.taken(self.broker, names.JMS_ADDRESS))
        if untaken:
            left["messages at the JMS broker"] = untaken
        self.wrong = accounting.account(self.rig, self.plan.payments)
        interrupting.show(self.wrong)
        return {
            "payments": len(self.plan.payments),
            **{name: len(ones) for name, ones in self.wrong.items()},
            "kills": self.faults.done.total(),
            "killed": {kind: self.faults.done[kind] for kind in kills.SHARES},
            "by_kafka": len(self.plan.by_kafka),
            "by_jms": len(self.plan.by_jms),
            "repeats": self.plan.repeats,
            "sent_again": sum(door.sent_again for door in doors),
            "left_over": left,
            "reconciled": accounting.reconciled(self.rig),
        }
