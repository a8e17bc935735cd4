"""`python -m bench.payments`: payments, SIGKILLs, one JSON line, each charged and told of once.

Worker, relay and beat run by their shipped commands on fresh servers, and the payment example is
set up by its own command. Exit code 1 unless each payment was charged once, and a notice of it is
in the topic once.
"""

import argparse
import json
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from typing import Any, Final

from bench.ground import prepared
from bench.payments import accounting
from bench.payments.killing import Killing
from bench.payments.plan import Plan, planned
from bench.payments.sending import Sending
from bench.rig import BenchmarkError, Rig
from devstack.artemis import USER, Artemis
from payments import names

PAYMENTS: Final = 20_000
LOOK_SECONDS: Final = 0.5
SETTLED_WITHIN_SECONDS: Final = 300.0
# After everything seems to be over: a second copy of anything would come now.
AFTERWARDS_SECONDS: Final = 3.0
_ENDED: Final = """
SELECT (SELECT count(*) FROM integration_messagetrack t
        JOIN integration_queue q ON q.id = t.queue_id
        WHERE q.name = ANY(%s) AND t.ended IN ('APPLIED', 'DUPLICATE'))
  + (SELECT count(*) FROM integration_messageerror WHERE state = 'HOLD')
"""
_WAITING: Final = """
SELECT (SELECT count(*) FROM integration_messageerror
        WHERE state IN ('RETRY', 'READY', 'PROCESSING'))
  + (SELECT count(*) FROM integration_outboxrow WHERE state IN ('PENDING', 'STAMPED'))
"""
_READ: Final = [names.REQUESTS, names.JMS_REQUESTS]


def main(arguments: Sequence[str] | None = None) -> int:
    """Carry out the run and print its line."""
    options = _parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    plan = planned(options.count, with_jms=options.jms)
    with (
        prepared(quick=False, integrations="payments") as ground,
        ground.rig("payments") as rig,
        ExitStack() as servers,
    ):
        line, is_right = _carry_out(rig, plan, _broker(rig, servers) if options.jms else None)
        if options.spark:
            line["reconciled"] = _reconciled(rig)
            is_right = is_right and not {"lost", "doubled", "read_twice"} & {*line["reconciled"]}
    print(json.dumps(line), flush=True)
    return 0 if is_right else 1


def _carry_out(rig: Rig, plan: Plan, broker: Artemis | None) -> tuple[dict[str, Any], bool]:
    _seed(rig, broker)
    killing = Killing(rig)
    killing.start_all()
    sending = Sending(rig.bootstrap, plan, broker)
    began = time.monotonic()
    sending.start()
    try:
        while sending.is_alive():
            killing.once(lambda: not sending.is_alive())
        _settle(rig, plan)
    finally:
        sending.ending.set()
    seconds = time.monotonic() - began
    if sending.failure is not None:
        raise BenchmarkError(sending.failure)
    time.sleep(AFTERWARDS_SECONDS)
    account = accounting.account(rig, plan.payments)
    line = {
        "payments": len(plan.payments),
        **asdict(account),
        "kills": killing.kills,
        "seconds": round(seconds, 1),
        "by_jms": len(plan.by_jms),
        "repeats": plan.repeats,
    }
    return line, account.is_right


def _settle(rig: Rig, plan: Plan) -> None:
    """Wait until each message has ended, and each notice is out; what then is missing is told."""
    until = time.monotonic() + SETTLED_WITHIN_SECONDS
    while int(rig.value(_ENDED, [_READ])) < plan.messages or rig.value(_WAITING):
        if time.monotonic() > until:
            print("the time is over; accounting for what there is", file=sys.stderr)
            return
        time.sleep(LOOK_SECONDS)


def _seed(rig: Rig, broker: Artemis | None) -> None:
    """Set the example up as `make run PAYMENTS=1` does."""
    if broker is None:
        rig.manage("seed_payments")
        return
    words = ["--jms", f"127.0.0.1:{broker.port}", "--user", USER]
    rig.manage("seed_payments", *words, stdin=f"{broker.password}\n")


def _broker(rig: Rig, servers: ExitStack) -> Artemis:
    # The library is an extra.
    from bench import jms  # noqa: PLC0415 - see above

    return servers.enter_context(jms.broker(rig.folder))


def _reconciled(rig: Rig) -> dict[str, int]:
    """How many records of the topic met which fate, as the bulk job tells."""
    told = rig.manage("bulk_reconcile", names.REQUESTS)
    report: dict[str, Any] = json.loads(told.splitlines()[-1])
    fates: dict[str, int] = report["facts"]["fates"]
    return fates


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench.payments", description=__doc__)
    parser.add_argument("--count", type=int, default=PAYMENTS, help="payments (default 20000)")
    off = argparse.BooleanOptionalAction
    parser.add_argument("--jms", action=off, default=True, help="a tenth of them by JMS")
    parser.add_argument("--spark", action=off, default=True, help="reconcile the topic at the end")
    return parser


if __name__ == "__main__":
    sys.exit(main())
