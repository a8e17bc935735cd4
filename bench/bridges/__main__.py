"""`python -m bench.bridges`: from JMS to Kafka and back to JMS amid SIGKILLs; one JSON line.

A Java client sends messages of every kind to a JMS queue; a queue forwards them to a topic, another
one delivers them from there to a second JMS queue, and the client receives what came. Workers,
relays and beats run by their shipped commands on fresh servers. Exit code 1 unless each message
came once, as it was sent and in the order of its group, and nothing is left over.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Final

from bench import interrupting, jms
from bench.bridges.accounting import shortcomings
from bench.bridges.run import LONGEST_SECONDS, BridgeRun, Plan
from bench.ground import prepared

MESSAGES: Final = 20_000
KILLS: Final = 50
# For what is before and after the kills; on a machine that others use, too, that takes long.
BESIDES_SECONDS: Final = 1_800


def main(arguments: Sequence[str] | None = None) -> int:
    """Carry out the run and print its line."""
    options = _parser().parse_args(arguments)
    interrupting.heed(int(LONGEST_SECONDS) + BESIDES_SECONDS)
    plan = Plan(count=options.count, kills=options.kills, seed=options.seed)
    with (
        prepared(quick=False) as ground,
        ground.rig("bridges") as rig,
        jms.broker(rig.folder) as broker,
    ):
        line = BridgeRun(rig, ground.servers, broker, plan).carry_out()
        interrupting.in_time()
        wrong = shortcomings(line, plan.kills)
        interrupting.keep(rig.folder, wrong)
    print(json.dumps(line), flush=True)
    return 1 if wrong else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench.bridges", description=__doc__)
    parser.add_argument("--count", type=int, default=MESSAGES, help="messages (default 20000)")
    parser.add_argument("--kills", type=int, default=KILLS, help="SIGKILLs (default 50)")
    parser.add_argument("--seed", default="1", help="for the order of the kills")
    return parser


if __name__ == "__main__":
    sys.exit(main())
