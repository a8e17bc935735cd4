"""How a long run ends before its time: asked to, or because it takes far too long."""

import os
import signal
from typing import NoReturn


def heed(longest_seconds: int = 0) -> None:
    """Let SIGTERM, and the end of this time if there is one, end the run. Its logs are kept.

    Raises, where the run is then, KeyboardInterrupt or TimeoutError.
    """
    for each in (signal.SIGTERM, signal.SIGALRM):
        signal.signal(each, _interrupted)
    signal.alarm(longest_seconds)


def in_time() -> None:
    """Say that the run has come to its end."""
    signal.alarm(0)


def _interrupted(number: int, _frame: object) -> NoReturn:
    os.environ["BENCH_KEEP"] = "1"
    if number == signal.SIGALRM:
        raise TimeoutError("the run did not come to its end")
    raise KeyboardInterrupt
