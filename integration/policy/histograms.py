"""Histograms in Prometheus' sense: how many values lie in each bucket, and their sum. Pure."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

# From a broker's write to the commit of its effect: an attached run takes some 20 ms, a retry
# minutes, a release as long as people do.
LATENCY_SECONDS: Final = (0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1_800, 3_600)
CALL_SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


@dataclass(slots=True)
class Histogram:
    """Values by bucket; the last one has no upper bound. `counts` are not cumulative.

    >>> one = Histogram((1, 10))
    >>> one.add_all([0.5, 1, 3, 99])
    >>> one.counts, one.total
    ([2, 1, 1], 103.5)
    """

    bounds: Sequence[float]
    counts: list[int] = field(default_factory=list)
    total: float = 0.0

    def __post_init__(self) -> None:
        self.counts = self.counts or [0] * (len(self.bounds) + 1)

    def add_all(self, seconds: Sequence[float]) -> None:
        """Add many values at once; those of one batch mostly lie in one bucket."""
        lowest, highest = min(seconds), max(seconds)
        self.total += sum(seconds)
        place = bisect_left(self.bounds, lowest)
        if bisect_left(self.bounds, highest) == place:
            self.counts[place] += len(seconds)
            return
        for value in seconds:
            self.counts[bisect_left(self.bounds, value)] += 1
