"""Rests of the relay's threads, which a stop cuts short."""

import time
from collections.abc import Callable
from typing import Final

# A rest is slept in such pieces; where nothing comes, most of a thread's work is to wake up.
LOOK_SECONDS: Final = 0.25


def rest(seconds: float, stop: Callable[[], bool]) -> None:
    """Sleep so long, or until `stop()`, which is asked four times a second."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0 and not stop():
        time.sleep(min(left, LOOK_SECONDS))
