"""A partner that is away for five minutes under load: `python -m bench.outage_five_minutes`.

Prints one JSON object: how long after the recovery delivery went on, and what must be true then.
It is no part of `python -m bench`, because it takes that long; `--seconds` shortens the outage.
"""

import argparse
import json
import sys
import time

from bench.cases.http import ask, outbound, partner
from bench.figure import Figure, below
from bench.ground import Ground, prepared
from bench.rig import Rig

LATENCY_MS = 10
# More than can be sent before the outage begins, so that there is load all the while.
MESSAGES = 3_000
BEFORE = 200
_SPENT = "SELECT count(*) FROM integration_messageerror"
_DOUBTED = "SELECT count(*) FROM integration_delivery WHERE state IN ('SENDING', 'UNKNOWN')"


def outage(ground: Ground, seconds: float) -> Figure:
    """Switch the partner off for so long in the middle of a sequential queue."""
    with ground.rig("outage") as rig:
        address = partner(rig, "partner", LATENCY_MS)
        queue = outbound(rig, "outage", MESSAGES, address=address, kind="sequential")
        rig.start_worker()
        queue.switch_on()
        rig.until(lambda: _posts(address) >= BEFORE, f"{BEFORE} messages have arrived")
        ask(f"{address}down", "PUT")
        time.sleep(seconds)
        stood = _posts(address)
        ask(f"{address}up", "PUT")
        back = time.monotonic()
        rig.until(lambda: _posts(address) > stood, "delivery goes on", 120)
        took = time.monotonic() - back
        rig.until(lambda: queue.position() == MESSAGES, "every message has arrived")
        claims = _claims(rig, address) | {"the load lasted": stood < MESSAGES}
    return Figure(
        name="outage_five_minutes",
        value=took,
        unit="s",
        n=MESSAGES,
        against="the moment the partner answers again",
        target=below("value", 5.0),
        claims=claims,
        facts={"away_seconds": seconds},
    )


def _claims(rig: Rig, address: str) -> dict[str, bool]:
    found = json.loads(ask(f"{address}order", "GET"))
    offsets = [int(id_.rpartition("~")[2]) for id_ in found["order"]]
    return {
        "no failure was written": rig.value(_SPENT) == 0,
        "each arrived once": found["posts"] == found["ids"] == MESSAGES,
        "in order": offsets == sorted(offsets),
        "nothing is in doubt": rig.value(_DOUBTED) == 0,
    }


def _posts(address: str) -> int:
    return int(json.loads(ask(address, "GET"))["posts"])


def main() -> int:
    """Run it once; exit code 1 when something that must be true is not."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=300.0)
    asked = parser.parse_args()
    with prepared(quick=True) as ground:
        figure = outage(ground, asked.seconds)
    print(figure.line())
    return 0 if figure.is_ok else 1


if __name__ == "__main__":
    sys.exit(main())
