"""`python -m bench.smoke`: 10,000 messages, three SIGKILLs, one JSON line, nothing lost or doubled.

Web, worker, relay and beat run by their shipped commands on fresh servers. Exit code 1 unless
nothing was lost, nothing doubled, exactly the expected messages are held, and a partner over HTTP
has once and in order what handlers published.
"""

import json
import os
import secrets
import signal
import sys
import time
from dataclasses import dataclass, field
from typing import Final, NoReturn

from bench.ground import prepared
from bench.rig import BenchmarkError, Rig
from bench.smoke import accounting, plan
from bench.smoke.outbound import SentOut, WayOut, way_out
from bench.smoke.person import Person
from bench.smoke.plan import KILLS, Plan
from bench.smoke.sending import Sending
from devstack.supervise import Process

LIMIT_SECONDS: Final = 600
LOOK_SECONDS: Final = 0.1
# After everything seems to be over: a second copy of anything would come now.
AFTERWARDS_SECONDS: Final = 2.0
MESSAGES: Final = 5_000
QUICK_MESSAGES: Final = 1_000
ADMINISTRATOR: Final = "smoke"
WRONG: Final = (
    *("lost", "doubled", "out_of_order"),
    *("out_lost", "out_doubled", "out_out_of_order"),
)
_BLOCKED: Final = """
SELECT e.id FROM integration_messageerror e JOIN integration_queue q ON q.id = e.queue_id
WHERE q.kind = 'sequential' AND e.state = 'HOLD'
"""


@dataclass
class Smoke:
    """One smoke run in progress."""

    rig: Rig
    plans: list[Plan]
    person: Person
    worker: Process
    way_out: WayOut
    kills: int = 0
    released: set[object] = field(default_factory=set)

    @property
    def messages(self) -> int:
        return sum(plan.messages for plan in self.plans)

    @property
    def expected_held(self) -> int:
        return sum(plan.expected_held for plan in self.plans)

    def look(self) -> None:
        """Do what a bad night and a person on duty do about what they find."""
        if self.kills < KILLS and self._effects() > self.messages * (self.kills + 1) // (KILLS + 1):
            self.worker.kill()
            self.kills += 1
            self.worker = self.rig.start("worker")
        for (error_id,) in self.rig.rows(_BLOCKED):
            if self.person.release(error_id):
                self.released.add(error_id)

    def is_over(self) -> bool:
        """Every message has its effect or is held, nothing waits, the partner has its own."""
        waiting = self.rig.value(
            "SELECT count(*) FROM integration_messageerror "
            "WHERE state IN ('RETRY', 'READY', 'PROCESSING')"
        )
        held = self.rig.value("SELECT count(*) FROM integration_messageerror WHERE state = 'HOLD'")
        is_done = not waiting and self._effects() + int(held) >= self.messages
        return is_done and self.way_out.is_over()

    def _effects(self) -> int:
        return int(self.rig.value("SELECT count(*) FROM bench_effect"))


def main() -> int:
    """Carry out the run; prints its line also when the time is over, with what was found then."""
    for each in (signal.SIGTERM, signal.SIGALRM):
        signal.signal(each, _interrupted)
    signal.alarm(LIMIT_SECONDS)
    quick = os.environ.get("BENCH_QUICK", "0") not in {"", "0"}
    messages = QUICK_MESSAGES if quick else MESSAGES
    plans = [plan.sequential(messages), plan.continuous(messages)]
    with prepared(quick=quick) as ground, ground.rig("smoke") as rig:
        line = _carry_out(rig, plans)
        signal.alarm(0)
    print(json.dumps(line), flush=True)
    is_good = not any(line[name] for name in WRONG)
    return 0 if is_good and line["held"] == line["expected_held"] else 1


def _carry_out(rig: Rig, plans: list[Plan]) -> dict[str, object]:
    smoke = _started(rig, plans)
    began = time.monotonic()
    sending = Sending(rig.bootstrap, plans)
    sending.start()
    try:
        while sending.is_alive() or not smoke.is_over():
            smoke.look()
            time.sleep(LOOK_SECONDS)
    except TimeoutError:
        print("the time is over; accounting for what there is", file=sys.stderr)
    finally:
        sending.ending.set()
    seconds = time.monotonic() - began
    if sending.failure is not None:
        raise BenchmarkError(sending.failure)
    time.sleep(AFTERWARDS_SECONDS)
    accounting.remember(rig, sending.offsets)
    account = accounting.account(rig, plans[0].queue)
    return {
        "sent": account.sent,
        "lost": account.lost,
        "doubled": account.doubled,
        "held": account.held,
        "expected_held": smoke.expected_held,
        "kills": smoke.kills,
        "seconds": round(seconds, 1),
        "out_of_order": account.out_of_order,
        "released": len(smoke.released),
        "http": smoke.person.health(),
        **_told(smoke.way_out.account()),
    }


def _told(sent: SentOut) -> dict[str, object]:
    return {
        "published": sent.published,
        "received": sent.received,
        "out_lost": sent.lost,
        "out_doubled": sent.doubled,
        "out_out_of_order": sent.out_of_order,
        "out_repeated_posts": sent.repeated,
    }


def _started(rig: Rig, plans: list[Plan]) -> Smoke:
    """Everything runs, and a person is logged in."""
    for each in plans:
        rig.topic(each.queue)
    out = way_out(rig, plans[0].publishing)
    rig.configure(*(each.configuration for each in plans), out.configuration)
    password = secrets.token_urlsafe(12)
    rig.manage(
        "createsuperuser",
        *("--noinput", "--username", ADMINISTRATOR, "--email", "smoke@localhost"),
        environment={"DJANGO_SUPERUSER_PASSWORD": password},
    )
    rig.start("relay")
    rig.start("beat")
    person = Person(rig.start_web())
    person.log_in(ADMINISTRATOR, password)
    return Smoke(rig, plans, person, rig.start_worker(), out)


def _interrupted(number: int, _frame: object) -> NoReturn:
    if number == signal.SIGALRM:
        raise TimeoutError(f"not over after {LIMIT_SECONDS} s")
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
