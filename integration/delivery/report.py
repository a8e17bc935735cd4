"""The report of one run, for the run's history and for whoever started it."""

import time
from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from integration.delivery.batch_outcome import BatchOutcome
from integration.delivery.tally import Tally

# A run's answer from `stop` when another queue waits: its turn ends, not its worker.
YIELD: Final = "YIELD"


class RunEnding(StrEnum):
    """The reason why a run ended."""

    DRAINED = "DRAINED"  # everything read, or up to a stop, and the time to stay attached is over
    YIELDED = "YIELDED"  # another queue waited for a worker
    STOPPED = "STOPPED"  # the worker shuts down, or the queue is paused or switched off
    BACKOFF = "BACKOFF"
    BLOCKED = "BLOCKED"
    BRAKED = "BRAKED"
    OUTAGE = "OUTAGE"
    WAITING = "WAITING"
    LOST = "LOST"  # the database or the lock went away
    NOTHING_FREE = "NOTHING_FREE"  # every partition is in somebody's hands


@dataclass(slots=True)
class Report:
    """Counts by ending, and how the run ended. `drained`: nothing was left in the topic then."""

    counts: Counter[str] = field(default_factory=Counter)
    ending: RunEnding = RunEnding.NOTHING_FREE
    text: str = ""
    drained: bool = False
    _tally: Tally = field(default_factory=Tally, repr=False, compare=False)
    _told: Counter[str] = field(default_factory=Counter, repr=False, compare=False)

    def add(self, batch_outcome: BatchOutcome) -> None:
        batch_result = batch_outcome.batch_result
        self.counts.update([track[3] for track in batch_result.tracks])
        self.counts.update([track[3] for _, track in batch_result.strays])
        self._tally.add(batch_result, int(time.time() * 1_000))

    def untold(self) -> Tally:
        """Return what has been counted since this was asked last."""
        tally, self._tally = self._tally, Tally()
        tally.endings, self._told = self.counts - self._told, self.counts.copy()
        return tally

    def ended(self, ending: RunEnding, text: str = "") -> "Report":
        self.ending, self.text = ending, text
        return self
