"""A partner that is away for five minutes under load: `python -m bench.outage_five_minutes`.

Prints one JSON object: how long after the recovery delivery went on, and what must be true then.
It is no part of `python -m bench`, because it takes that long; `--seconds` shortens the outage.
"""

import argparse
import json
import sys
import threading
import time
from typing import Final

from bench import traffic, workload
from bench.cases.http import KEYS, ask, outbound, partner
from bench.figure import Figure, below
from bench.ground import Ground, prepared
from bench.queue import BenchQueue
from bench.rig import BenchmarkError, Rig

LATENCY_MS: Final = 10
# More than is sent before the outage begins; what comes after it makes the load last.
WAITING: Final = 1_000
PER_SECOND: Final = 10.0
BEFORE: Final = 200
_FAILURES: Final = "SELECT count(*) FROM integration_messageerror"
_RETRIES: Final = """
SELECT (SELECT count(*) FROM integration_delivery WHERE attempt > 1)
  + (SELECT count(*) FROM integration_messagetrack WHERE ended <> 'DELIVERED')
"""
_DOUBTED: Final = "SELECT count(*) FROM integration_delivery WHERE state IN ('SENDING', 'UNKNOWN')"
_REFUSED: Final = "SELECT count(*) FROM integration_delivery WHERE state = 'FAILED'"
_STATE: Final = (
    "SELECT state || ' ' || state_code FROM integration_queuepartition WHERE queue_id = %s"
)


class Feeding(threading.Thread):
    """Writes further messages at a steady pace until it is ended. `count` = how many."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__(name="feeding", daemon=True)
        self.bootstrap = bootstrap
        self.topic = topic
        self.count = 0
        self.unwritten = 0
        self.ending = threading.Event()

    def run(self) -> None:
        writing = traffic.producer(self.bootstrap)
        while not self.ending.wait(1 / PER_SECOND):
            payload = workload.asset(WAITING + self.count, KEYS)
            writing.produce(self.topic, value=payload, partition=0)
            writing.poll(0)
            self.count += 1
        self.unwritten = writing.flush(traffic.FLUSH_SECONDS)

    def ended(self) -> int:
        """Write no more; returns how many were written. Raises BenchmarkError where one was not."""
        self.ending.set()
        self.join()
        if self.unwritten:
            raise BenchmarkError(f"{self.unwritten} messages were not written to {self.topic}")
        return self.count


def outage(ground: Ground, seconds: float) -> Figure:
    """Switch the partner off for so long in the middle of a sequential queue."""
    with ground.rig("outage") as rig:
        address = partner(rig, "partner", LATENCY_MS)
        queue = outbound(rig, "outage", WAITING, address=address, kind="sequential")
        rig.start_worker()
        feeding = Feeding(rig.bootstrap, queue.topic)
        feeding.start()
        queue.switch_on()
        rig.until(lambda: _posts(address) >= BEFORE, f"{BEFORE} messages have arrived")
        ask(f"{address}down", "PUT")
        time.sleep(seconds)
        stood, state = _posts(address), rig.value(_STATE, [queue.id])
        waited = WAITING + feeding.count - stood
        ask(f"{address}up", "PUT")
        took = _resumed(rig, address, stood)
        count = WAITING + feeding.ended()
        _drained(rig, queue, count)
        claims = {
            "the load lasted": waited > 0,
            "the queue told of the outage": state == "OUTAGE ENDPOINT_DOWN",
            **_claims(rig, address, count),
        }
        refused = rig.value(_REFUSED)
    return Figure(
        name="outage_five_minutes",
        value=took,
        unit="s",
        n=count,
        against="the moment the partner answers again",
        target=below("value", 5.0),
        claims=claims,
        facts={"away_seconds": seconds, "waited": waited, "refused_calls": refused},
    )


def _resumed(rig: Rig, address: str, stood: int) -> float:
    """Seconds until the partner has a further message."""
    back = time.monotonic()
    rig.until(lambda: _posts(address) > stood, "delivery goes on", 120)
    return time.monotonic() - back


def _drained(rig: Rig, queue: BenchQueue, count: int) -> None:
    rig.until(lambda: queue.position() == count, "every message has arrived")


def _claims(rig: Rig, address: str, count: int) -> dict[str, bool]:
    arrivals = json.loads(ask(f"{address}order", "GET"))
    offsets = [int(id_.rpartition("~")[2]) for id_ in arrivals["order"]]
    return {
        "no failure was written": rig.value(_FAILURES) == 0,
        "no retry was spent": rig.value(_RETRIES) == 0,
        "each arrived once": arrivals["posts"] == arrivals["ids"] == count,
        "in order": offsets == list(range(count)),
        "nothing is in doubt": rig.value(_DOUBTED) == 0,
    }


def _posts(address: str) -> int:
    return int(json.loads(ask(address, "GET"))["posts"])


def main() -> int:
    """Run it once; exit code 1 when something that must be true is not."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=300.0)
    options = parser.parse_args()
    with prepared(quick=True) as ground:
        figure = outage(ground, options.seconds)
    print(figure.line())
    return 0 if figure.is_ok else 1


if __name__ == "__main__":
    sys.exit(main())
