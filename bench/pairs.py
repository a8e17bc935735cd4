"""Paired, interleaved runs: what both sides suffer from the machine cancels out in the ratio."""

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

PAIRS: Final = 5
QUICK_PAIRS: Final = 2
# No machine's mood does that to one run of several; a standstill does, and a median hides it.
STALLED_SHARE: Final = 0.5


@dataclass(frozen=True, slots=True)
class Paired:
    """Rates of both sides, run by run."""

    ours: list[float]
    theirs: list[float]

    @property
    def value(self) -> float:
        return statistics.median(self.ours)

    @property
    def other(self) -> float:
        return statistics.median(self.theirs)

    @property
    def ratios(self) -> list[float]:
        return [mine / theirs for mine, theirs in zip(self.ours, self.theirs, strict=True)]

    @property
    def ratio(self) -> float:
        """The median of the pairs' ratios."""
        return statistics.median(self.ratios)

    @property
    def stalled(self) -> list[float]:
        """Our rates that are less than half of the median of ours."""
        return [rate for rate in self.ours if rate < STALLED_SHARE * self.value]

    @property
    def facts(self) -> dict[str, object]:
        return {
            "against_value": round(self.other),
            "ratios": [round(ratio, 3) for ratio in self.ratios],
            "stalled": [round(rate) for rate in self.stalled],
        }


def run_pairs(
    ours: Callable[[], float],
    theirs: Callable[[], float],
    *,
    quick: bool,
    pairs: int = PAIRS,
    warm: Callable[[], object] | None = None,
) -> Paired:
    """Run both sides alternately, the first of each pair in turn, after one unmeasured pair.

    Where a pair takes minutes, `warm` is called instead of the unmeasured one.
    """
    paired = Paired([], [])
    if warm is None:
        theirs()
        ours()
    else:
        warm()
    for number in range(QUICK_PAIRS if quick else pairs):
        if number % 2:
            mine, other = ours(), theirs()
        else:
            other, mine = theirs(), ours()
        paired.ours.append(mine)
        paired.theirs.append(other)
    return paired
