"""One soak, from its start to its line: half of what it can do, for hours."""

import secrets
import threading
import time
import urllib.error
from dataclasses import asdict
from typing import Any, Final

from bench import interrupting, traffic
from bench.cases.http import partner
from bench.chaos import accounting as endings
from bench.chaos.duty import OnDuty
from bench.faults.looking import Look
from bench.rig import BenchmarkError, Rig
from bench.smoke.person import Person
from bench.soak import plan
from bench.soak.accounting import Account, account
from bench.soak.holding import Grown, Samples
from bench.soak.sending import Sender

ADMINISTRATOR: Final = "soak"
PARTS: Final = ("relay", "beat")
# Once to become warm, once to tell what it can do.
BURSTS: Final = (10_000, 40_000)
# But for one in so many.
NEARLY: Final = 100
SHARE: Final = 0.5
# From so many seconds on memory is not to grow any more; in a short run, sooner.
WARM_SECONDS: Final = 600.0
WARM_SHARE: Final = 1 / 3
TIME_SECONDS: Final = 300.0
TIME_SHARE: Final = 1 / 6
PAGES: Final = ("", "queues/", "failures/", "delivery/")
READ_EVERY_SECONDS: Final = 2.0
OVER_WITHIN_SECONDS: Final = 600.0
GRACE_SECONDS: Final = 40.0
_EFFECTS: Final = "SELECT count(*) FROM bench_effect"
_OPEN: Final = endings.total("open failures", "outgoing rows", "calls in doubt")


class Reader(threading.Thread):
    """Somebody who looks at the console all the time. `failed` counts pages without an answer."""

    def __init__(self, person: Person) -> None:
        super().__init__(name="reader", daemon=True)
        self.person = person
        self.ending = threading.Event()
        self.read = self.failed = 0

    def run(self) -> None:
        while not self.ending.wait(READ_EVERY_SECONDS):
            for page in PAGES:
                try:
                    self.person.read(page)
                    self.read += 1
                except (urllib.error.HTTPError, OSError):
                    self.failed += 1


class Soak:
    """Everything of one soak; `carry_out` once."""

    def __init__(self, rig: Rig, seconds: int) -> None:
        self.rig = rig
        self.seconds = seconds
        self.sender = Sender(rig.bootstrap)
        self.samples = Samples(rig)
        self.partner = ""

    def carry_out(self) -> dict[str, Any]:
        """Find out what it can do, do half of it for so long, and return the line."""
        person, login = self._started()
        duty = OnDuty(Look(self.rig.database_url), person, login, "soak")
        reader = Reader(self._somebody(login))
        duty.start()
        can_do = [self._burst(count) for count in BURSTS][-1]
        self.sender.per_second = can_do * SHARE
        interrupting.say(f"it can do {can_do:.0f} messages a second")
        began = time.monotonic()
        threads = (self.samples, duty, reader, self.sender)
        for each in (self.samples, reader, self.sender):
            each.start()
        threading.Event().wait(self.seconds)
        ended = time.monotonic()
        self.sender.ending.set()
        self.sender.join()
        if self.sender.failure:
            raise BenchmarkError(self.sender.failure)
        self.rig.until(self._is_over, "everything has ended", OVER_WITHIN_SECONDS)
        for thread in threads:
            thread.ending.set()
            thread.join()
        # The partner's own process, for its account, lives on.
        forced = [name for name in (*PARTS, "worker", "web") if not self._stopped(name)]
        left = endings.left(self.rig, endings.WITHOUT_BOOK, forced)
        sums = account(self.rig, self.sender.sent, self.partner)
        return self._line(can_do, sums, self._grown(began, ended)) | {
            "pages": reader.read,
            "pages_failed": reader.failed,
            "refused": len(duty.refusals),
            "left_over": left,
        }

    def _started(self) -> tuple[Person, tuple[str, str]]:
        """Everything runs as shipped, and a person is logged in."""
        for name, partitions in plan.PARTITIONS.items():
            traffic.make_topic(self.rig.bootstrap, name, partitions)
        self.partner = partner(self.rig, "partner", 0)
        self.rig.configure(*plan.configurations(self.partner))
        login = ADMINISTRATOR, secrets.token_urlsafe(12)
        self.rig.manage(
            "createsuperuser",
            *("--noinput", "--username", login[0], "--email", "soak@localhost"),
            environment={"DJANGO_SUPERUSER_PASSWORD": login[1]},
        )
        for part in PARTS:
            self.rig.start(part)
        self.address = self.rig.start_web()
        self.rig.start_worker()
        return self._somebody(login), login

    def _somebody(self, login: tuple[str, str]) -> Person:
        person = Person(self.address)
        person.log_in(*login)
        return person

    def _burst(self, count: int) -> float:
        """Messages a second, from the first that is in Kafka to nearly the last effect."""
        began = time.monotonic()
        self.sender.burst(count)
        # What is held, and what waits behind it, waits for its person.
        wanted = self.sender.sent.total() - count // NEARLY
        self.rig.until(lambda: self.rig.value(_EFFECTS) >= wanted, "a burst is applied")
        return count / (time.monotonic() - began)

    def _is_over(self) -> bool:
        applied = int(self.rig.value(_EFFECTS))
        return applied >= sum(self.sender.sent.values()) and not self.rig.value(_OPEN)

    def _stopped(self, name: str) -> bool:
        return self.rig.processes[name].stop(grace_seconds=GRACE_SECONDS)

    def _grown(self, began: float, ended: float) -> Grown:
        warm = began + min(WARM_SECONDS, self.seconds * WARM_SHARE)
        length = min(TIME_SECONDS, self.seconds * TIME_SHARE)
        return self.samples.grown((warm, warm + length), (ended - length, ended))

    def _line(self, can_do: float, sums: Account, grown: Grown) -> dict[str, Any]:
        done = endings.actions(self.rig)
        return {
            "name": "soak",
            "seconds": self.seconds,
            "can_do": round(can_do),
            "per_second": round(self.sender.per_second),
            **asdict(sums),
            "held": done.get("held", 0),
            "edited": done.get("edit", 0),
            "released": done.get("release", 0),
            "first": grown.first,
            "last": grown.last,
            "grown": grown.shortcomings(),
        }


def shortcomings(line: dict[str, Any]) -> list[str]:
    """Say what keeps this line from being a good one."""
    nought = "lost", "doubled", "out_of_order", "out_lost", "out_doubled", "pages_failed", "refused"
    wrong = [f"{name} is {line[name]}" for name in nought if line[name]]
    wrong += [f"{count} {name} left over" for name, count in line["left_over"].items()]
    wrong += line["grown"]
    if not (line["first"] and line["last"]):
        wrong.append("no sample was taken")
    return wrong
