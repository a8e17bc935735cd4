"""`python -m bench.payments`: payments, SIGKILLs, one JSON line, each charged and told of once.

Workers, relays and beats run by their shipped commands on fresh servers, and the payment example
is set up by its own command. Exit code 1 unless each payment was charged once, a notice of it is in
the topic once, and nothing is left over.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Final

from bench import interrupting, jms
from bench.ground import prepared
from bench.payments.accounting import shortcomings
from bench.payments.plan import planned
from bench.payments.run import LONGEST_SECONDS, PaymentRun

PAYMENTS: Final = 20_000
# For what is before and after the kills; on a machine that others use, too, that takes long.
BESIDES_SECONDS: Final = 1_800


def main(arguments: Sequence[str] | None = None) -> int:
    """Carry out the run and print its line."""
    options = _parser().parse_args(arguments)
    interrupting.heed(int(LONGEST_SECONDS) + BESIDES_SECONDS)
    plan = planned(options.count, options.seed)
    with (
        prepared(quick=False, integrations="payments") as ground,
        ground.rig("payments") as rig,
        jms.broker(rig.folder) as broker,
    ):
        line = PaymentRun(rig, ground.servers, broker, plan, options.seed).carry_out()
        interrupting.in_time()
        wrong = shortcomings(line)
        interrupting.keep(rig.folder, wrong)
    print(json.dumps(line), flush=True)
    return 1 if wrong else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench.payments", description=__doc__)
    parser.add_argument("--count", type=int, default=PAYMENTS, help="payments (default 20000)")
    parser.add_argument("--seed", default="1", help="for the payments and the order of the kills")
    return parser


if __name__ == "__main__":
    sys.exit(main())
