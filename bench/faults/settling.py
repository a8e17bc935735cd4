"""The end of a run with faults: nothing waits and nothing moves any more."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

LOOK_SECONDS: Final = 1.0
# After everything seems to be over: a second copy of anything would come now.
QUIET_SECONDS: Final = 5.0
# Where nothing has moved for so long, it has come to a stand.
STUCK_SECONDS: Final = 180.0


@dataclass(frozen=True, slots=True)
class State:
    """How far it has come: what has ended so far, and what still waits."""

    ended: int
    waiting: int


def settle(look: Callable[[], State]) -> float:
    """Wait until nothing waits or moves, as long as something moves; returns the seconds."""
    began = moved_at = time.monotonic()
    before = None
    while time.monotonic() - moved_at < STUCK_SECONDS:
        state = look()
        if state != before:
            before, moved_at = state, time.monotonic()
        elif state.waiting == 0 and time.monotonic() - moved_at > QUIET_SECONDS:
            break
        time.sleep(LOOK_SECONDS)
    return round(moved_at - began, 1)
