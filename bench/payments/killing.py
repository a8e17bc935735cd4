"""Ends the worker and the relay by SIGKILL, in turns, amid their work, and starts them again."""

import time
from collections.abc import Callable, Iterator
from itertools import cycle
from random import Random
from typing import Final

from bench.rig import POLL_SECONDS, Rig

# Whoever has not moved anything for so long is killed all the same.
IDLE_SECONDS: Final = 15.0
LONGEST_PAUSE_SECONDS: Final = 2.0
# What each of the two moves.
MOVED: Final = {
    "worker": "SELECT count(*) FROM payments_charge",
    "relay": "SELECT count(*) FROM integration_outboxrow WHERE state = 'PUBLISHED'",
}


class Killing:
    """Counts its kills. A process is killed a moment after it has been seen to move something."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.kills = 0
        self._random = Random(1)
        self._turns: Iterator[str] = cycle(MOVED)

    def start_all(self) -> None:
        self.rig.start("beat")
        self.rig.start("relay")
        self.rig.start_worker()

    def once(self, is_over: Callable[[], bool]) -> None:
        """Kill the next one and start it again; not once it is over."""
        name = next(self._turns)
        before, until = self._moved(name), time.monotonic() + IDLE_SECONDS
        while self._moved(name) == before and time.monotonic() < until:
            if is_over():
                return
            time.sleep(POLL_SECONDS)
        time.sleep(self._random.uniform(0, LONGEST_PAUSE_SECONDS))
        self.rig.processes[name].kill()
        self.kills += 1
        if name == "worker":
            self.rig.start_worker()
        else:
            self.rig.start(name)

    def _moved(self, name: str) -> int:
        return int(self.rig.value(MOVED[name]))
