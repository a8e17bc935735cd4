"""One chaos run, from its start to its account."""

import json
import random
import secrets
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any, Final

from bench import interrupting, traffic
from bench.cases.http import partner
from bench.chaos import accounting, plan, reading, replies, tables
from bench.chaos.deeds import World
from bench.chaos.duty import OnDuty
from bench.chaos.findings import findings
from bench.chaos.plan import Plan
from bench.chaos.producing import Fate, Ledger, PlainSender, Sender, TransactionalSender
from bench.chaos.proxy import Proxy
from bench.faults.looking import Look
from bench.faults.processes import Processes
from bench.faults.sequence import Faults
from bench.rig import BenchmarkError, Rig
from bench.smoke.person import Person
from devstack.servers import Servers

HOUR_SECONDS: Final = 3_600
ENDED_WITHIN_SECONDS: Final = 240.0
# What has not become less for so long has come to a stand.
STUCK_SECONDS: Final = 180.0
LOOK_SECONDS: Final = 2.0
ADMINISTRATOR: Final = "chaos"
# Nothing waits any more: neither in Kafka, nor for a person, nor on its way out.
_WAITING: Final = accounting.total(
    "open failures", "outgoing rows", "messages not read", "calls in doubt"
)


class ChaosRun:
    """Everything of one run. `carry_out` once, then ask for what it found."""

    def __init__(self, rig: Rig, servers: Servers, seconds: int, seed: str) -> None:
        self.rig = rig
        self.seconds = seconds
        self.seed = seed
        self.look = Look(rig.database_url)
        self.ledger = Ledger()
        self.proxy = Proxy({"postgres": rig.database_url, "valkey": rig.broker_url})
        self.skew_seconds = random.Random(seed).choice((-HOUR_SECONDS, HOUR_SECONDS))
        environment = {
            "SLUICE_DATABASE_URL": self.proxy.url("postgres"),
            "SLUICE_CELERY_BROKER_URL": self.proxy.url("valkey"),
        }
        self.environment = environment
        self.processes = Processes(rig, environment, self.skew_seconds)
        self.world = World(servers, self.processes, self.proxy)
        self.partner = ""
        self.untrue: list[accounting.Untrue] = []

    def carry_out(self) -> dict[str, Any]:
        """Run for so long, let everything come to its end, and return the line."""
        duty = self._started()
        log = self.rig.folder / "faults.jsonl"
        faults = Faults(self.world.choices(), self.seed, self.seconds, log)
        senders = self._senders()
        for each in (duty, faults, *senders):
            each.start()
        try:
            faults.join()
            for sender in senders:
                sender.ending.set()
        finally:
            # Whatever happens: nothing is started any more once the servers end.
            faults.heal()
        interrupting.say("the faults are over")
        self.processes.start_dead()
        skew = self.processes.skew_shown()
        _end(senders)
        book = reading.book(self.rig.bootstrap, plan.INBOUND)
        accounting.remember(self.rig, book)
        interrupting.say(f"{len(book)} messages are in Kafka; waiting for what is left of them")
        self.untrue = [
            replace(each, found=reading.found_at(self.rig.bootstrap, each.queue, each.told))
            for each in accounting.untrue(self.ledger, book)
        ]
        took = self._until_over()
        duty.ending.set()
        duty.join()
        forced = self.processes.stop_all()
        return {
            **self._line(faults, skew, forced),
            "untrue": len(self.untrue),
            "refused": len(duty.refusals),
            "resumed": duty.resumed,
            "caught_up_seconds": took,
        }

    def write_findings(self) -> None:
        """Write what is known of each message that something went wrong with."""
        file = self.rig.folder / "findings.json"
        known = {**findings(self.rig), "untrue": list(map(asdict, self.untrue))}
        file.write_text(json.dumps(known, default=str, indent=1))

    def _started(self) -> OnDuty:
        """Everything runs, and a person is logged in."""
        for name, partitions in plan.PARTITIONS.items():
            traffic.make_topic(self.rig.bootstrap, name, partitions)
        self.partner = partner(self.rig, "partner", 0)
        self.rig.configure(*plan.configurations(self.partner))
        self.rig.write(tables.TABLES)
        login = ADMINISTRATOR, secrets.token_urlsafe(12)
        self.rig.manage(
            "createsuperuser",
            *("--noinput", "--username", login[0], "--email", "chaos@localhost"),
            environment={"DJANGO_SUPERUSER_PASSWORD": login[1]},
        )
        self.proxy.listen()
        person = Person(self.rig.start_web(self.environment))
        person.log_in(*login)
        self.processes.start_all()
        # The session would not outlive the first fault.
        self.rig.forget_session()
        return OnDuty(self.look, person, login, self.seed)

    def _senders(self) -> list[Sender]:
        made = Plan(self.seed)
        common = self.rig.bootstrap, made, self.ledger
        two = [TransactionalSender(name, *common) for name in ("tx-1", "tx-2")]
        return [PlainSender("plain", *common), *two]

    def _until_over(self) -> float:
        """Wait until nothing waits, as long as it gets less; returns the seconds."""
        began = least_at = time.monotonic()
        least = None
        while time.monotonic() - least_at < STUCK_SECONDS:
            waiting = self._waiting()
            if waiting == 0:
                break
            if waiting is not None and (least is None or waiting < least):
                least, least_at = waiting, time.monotonic()
                interrupting.say(f"{waiting} wait")
            time.sleep(LOOK_SECONDS)
        return round(time.monotonic() - began, 1)

    def _waiting(self) -> int | None:
        """How much has not come to its end; None while the database does not answer."""
        waiting: int | None = self.look.value(_WAITING)
        if waiting == 0 and not replies.are_posted(self.look, self.partner):
            return 1
        return waiting

    def _line(self, faults: Faults, skew: float, forced: list[str]) -> dict[str, Any]:
        account = accounting.account(self.rig)
        out = replies.account(self.rig, self.partner)
        left = accounting.left(self.rig, forced=forced)
        done = accounting.actions(self.rig)
        is_skewed = abs(skew) > HOUR_SECONDS / 2
        return {
            "name": "chaos",
            "seed": self.seed,
            "seconds": self.seconds,
            **asdict(account),
            "aborted": self.ledger.count(Fate.ABORTED),
            "out_published": out.published,
            "out_lost": out.lost,
            "out_doubled": out.doubled,
            "out_out_of_order": out.out_of_order,
            "left": sum(left.values()),
            "left_over": left,
            "held": done.get("held", 0),
            "edited": done.get("edit", 0),
            "released": done.get("release", 0),
            "parked": done.get("park", 0),
            "deleted": done.get("delete", 0),
            "faults": {**faults.done, "clock_skewed": int(is_skewed)},
            "failures": accounting.codes(self.rig),
        }


def _end(senders: Sequence[Sender]) -> None:
    """Wait for the senders' end. Raises BenchmarkError for one that could not send."""
    for sender in senders:
        sender.join(ENDED_WITHIN_SECONDS)
        if sender.is_alive() or sender.failure is not None:
            raise BenchmarkError(sender.failure or f"{sender.name} does not come to its end")
