"""The bad time: one fault after the other, by chance, each noted with its time."""

import json
import random
import threading
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from bench.faults.cards import Deck
from bench.faults.deeds import Choice, Deed
from bench.rig import BenchmarkError

FIRST_SECONDS: Final = 3.0
PAUSE_SECONDS: Final = (2.0, 8.0)
# In a short run each kind has to have its turn, too.
SHORT_SECONDS: Final = 150.0
SHORT_PAUSE_SECONDS: Final = (2.0, 4.0)
LONGEST_UNDOING_SECONDS: Final = 400.0


class Faults(threading.Thread):
    """Does one fault every few seconds until the time is over. `done` counts them by kind.

    `shares` says how often a kind comes before all begin anew; once each without it. After `most`
    of them it is over as well.
    """

    def __init__(
        self,
        choices: Mapping[str, Choice],
        seed: str,
        seconds: float,
        log: Path,
        *,
        shares: Mapping[str, int] | None = None,
        most: int | None = None,
    ) -> None:
        super().__init__(name="faults", daemon=True)
        self.choices = choices
        self.seconds = seconds
        self.log = log
        self.most = most
        self.done: Counter[str] = Counter()
        self.ending = threading.Event()
        self._chance = random.Random(f"faults {seed}")
        self._deck = Deck(self._chance, shares or dict.fromkeys(choices, 1))
        self._pause = PAUSE_SECONDS if seconds > SHORT_SECONDS else SHORT_PAUSE_SECONDS
        self._busy: set[str] = set()
        self._under_way: list[threading.Thread] = []
        self._problems: list[str] = []
        self._began = time.monotonic()

    def run(self) -> None:
        until = self._began + self.seconds
        self.ending.wait(FIRST_SECONDS)
        while time.monotonic() < until and not self.ending.is_set():
            if self.done.total() == self.most:
                return
            self._one()
            self.ending.wait(self._chance.uniform(*self._pause))

    def heal(self) -> None:
        """Start no more, and return when each is over. Raises BenchmarkError for what is not."""
        self.ending.set()
        self.join()
        for thread in self._under_way:
            thread.join(LONGEST_UNDOING_SECONDS)
            if thread.is_alive():
                self._problems.append(f"{thread.name} is not over")
        if self._problems:
            raise BenchmarkError(f"faults could not be undone: {'; '.join(self._problems)}")

    def _one(self) -> None:
        kind = self._deck.draw()
        deed = self.choices[kind](self._chance, self._busy)
        if deed is None:
            self._deck.put_back(kind)
            return
        self.done[kind] += 1
        self._busy.add(deed.target)
        thread = threading.Thread(target=self._carry_out, args=(kind, deed), name=kind, daemon=True)
        self._under_way.append(thread)
        thread.start()

    def _carry_out(self, kind: str, deed: Deed) -> None:
        try:
            self._note(kind, deed, "begins")
            deed.do()
            self.ending.wait(deed.seconds)
            deed.undo()
            self._note(kind, deed, "is over")
        except Exception as e:  # noqa: BLE001 - told at the end, by the run itself
            self._problems.append(f"{kind} of {deed.target}: {type(e).__name__}: {e}")
        finally:
            self._busy.discard(deed.target)

    def _note(self, kind: str, deed: Deed, what: str) -> None:
        now = round(time.monotonic() - self._began, 2)
        fact = {"at": now, "time": time.time(), "kind": kind, "target": deed.target, "what": what}
        with self.log.open("a") as log:
            log.write(json.dumps({**fact, "seconds": round(deed.seconds, 2)}) + "\n")
