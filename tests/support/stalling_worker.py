"""A worker that notices sooner than in life whether its consumer stalls, and one that does.

`python -m tests.support.stalling_worker HOW ARGUMENTS...`: HOW is `never`, or how the consumer
stalls for good once it is ready, as after a reconnect gone wrong: `deaf` (its loop turns and asks
the broker nothing) or `stuck` (its loop stands still). The arguments are those of `celery`.
"""

import sys
import time
from typing import Any

from celery import signals
from celery.__main__ import main as celery

from crontasks.dispatch import stalled
from crontasks.health import consumer


def deaf(c: Any) -> None:
    c.hub.on_tick.clear()


def stuck(c: Any) -> None:
    c.hub.call_soon(time.sleep, 600)


HOW = {"deaf": deaf, "stuck": stuck}


def main() -> None:
    how, *arguments = sys.argv[1:]
    # As in life, only sooner.
    consumer.SILENT_SECONDS = 3.0
    if how in HOW:
        stalled.LOOK_EVERY_SECONDS, stalled.ENDS_AFTER_SECONDS = 0.5, 3.0
        stalled.GRACE_SECONDS = 2.0

    def stall(sender: Any, **_: Any) -> None:
        if how in HOW:
            sender.hub.call_later(2, HOW[how], sender)

    signals.worker_ready.connect(stall, weak=False)
    sys.argv = ["celery", "-A", "config", *arguments]
    celery()


if __name__ == "__main__":
    main()
