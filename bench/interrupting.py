"""How a long run ends: asked to, because it takes far too long, or with something to say."""

import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NoReturn

SHOWN: Final = 10


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


def keep(folder: Path, wrong: Sequence[str]) -> None:
    """Say what is wrong, if anything is, and keep the logs: they tell why."""
    if wrong:
        os.environ["BENCH_KEEP"] = "1"
        say(f"{'; '.join(wrong)} (logs: {folder})")


def show(found: Mapping[str, Sequence[object]]) -> None:
    """Name the first few of each kind that something is wrong with."""
    for name, ones in found.items():
        if ones:
            say(f"{name}: {', '.join(map(str, ones[:SHOWN]))}")


def say(text: str) -> None:
    """Tell whoever watches."""
    print(text, file=sys.stderr, flush=True)


def _interrupted(number: int, _frame: object) -> NoReturn:
    os.environ["BENCH_KEEP"] = "1"
    if number == signal.SIGALRM:
        raise TimeoutError("the run did not come to its end")
    raise KeyboardInterrupt
