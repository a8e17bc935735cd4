"""What the installation holds while it works: sampled, and compared between two times."""

import json
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

import redis

from bench.chaos.accounting import LEFT
from bench.faults.looking import Look
from bench.rig import Rig
from bench.usage import usage_of

EVERY_SECONDS: Final = 10.0
# Memory may have grown by so much, as all that is counted may.
GROWTH: Final = 0.05
# Of small numbers so many more may be there by chance: a run that begins while one looks.
FEW: Final = 3
MEMORY: Final = "memory"
SAMPLES: Final = "samples.jsonl"
Holding = dict[str, float]
"""What is held, by what it is."""


@dataclass(frozen=True, slots=True)
class Grown:
    """What was held at first and at last, as `held` says it of their times."""

    first: Holding
    last: Holding

    def shortcomings(self) -> list[str]:
        """Say what has become more."""
        return [
            f"{name} grew from {before:.0f} to {self.last[name]:.0f}"
            for name, before in self.first.items()
            if self.last[name] > before * (1 + GROWTH) + (0 if MEMORY in name else FEW)
        ]


class Samples(threading.Thread):
    """Looks every ten seconds until it is ended."""

    def __init__(self, rig: Rig) -> None:
        super().__init__(name="samples", daemon=True)
        self.rig = rig
        self.ending = threading.Event()
        self.taken: list[tuple[float, Holding]] = []
        self._look = Look(rig.database_url)
        self._broker = redis.Redis.from_url(rig.broker_url)

    def run(self) -> None:
        """Take them, and write each to a file, which tells what two times cannot."""
        began = time.monotonic()
        with (self.rig.folder / SAMPLES).open("w", encoding="utf-8") as file:
            while not self.ending.wait(EVERY_SECONDS):
                now, holding = time.monotonic(), self._now()
                self.taken.append((now, holding))
                line = {"second": round(now - began), **holding}
                file.write(json.dumps(line) + "\n")

    def grown(self, first: tuple[float, float], last: tuple[float, float]) -> Grown:
        """Compare two times, each from and until by the monotonic clock."""
        of_both = [[h for at, h in self.taken if a <= at < b] for a, b in (first, last)]
        return Grown(*map(held, of_both))

    def _now(self) -> Holding:
        parts = {
            name: usage_of(process.pid)
            for name, process in self.rig.processes.items()
            if name != "partner" and process.pid
        }
        return {
            MEMORY: sum(each.memory for each in parts.values()),
            **{f"{MEMORY} of {name}": each.memory for name, each in parts.items()},
            **{f"resident {MEMORY} of {name}": each.resident for name, each in parts.items()},
            "threads": sum(each.threads for each in parts.values()),
            "open files": sum(each.files for each in parts.values()),
            "sessions": float(self._look.value(LEFT["sessions"]) or 0),
            "locks": float(self._look.value(LEFT["locks"]) or 0),
            "keys of the broker": float(self._broker.dbsize()),
        }


def held(samples: Sequence[Mapping[str, float]]) -> Holding:
    """The median of memory and the most of all else; nothing where there is no sample.

    Threads, files, sessions and locks come and go with the runs that are at work at a moment: only
    what is left over raises the most of them.
    """
    names = samples[0] if samples else {}
    of_each = {name: [sample[name] for sample in samples] for name in names}
    return {
        name: round(median(each) if MEMORY in name else max(each), 1)
        for name, each in of_each.items()
    }
