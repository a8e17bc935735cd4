"""Whether twice the input takes more than in proportion: parts of slow inputs are repeated."""

import random
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

Read = Callable[[bytes], object]

# The larger one is for what is read so quickly that the smaller tells nothing.
SIZES: Final = (16_384, 131_072)
LONGEST_UNIT: Final = 64
UNITS: Final = 12
# So that what is measured is more than the clock's own steps.
LEAST_SECONDS: Final = 0.002
TRIALS: Final = 5
MOST_GROWTH: Final = 2.5
KEPT: Final = 30


class Growth(NamedTuple):
    """How much longer twice the input took, and which input: what is repeated, and around it."""

    ratio: float
    before: bytes = b""
    unit: bytes = b""
    after: bytes = b""


class Slowest:
    """The inputs that took most time for each byte."""

    def __init__(self) -> None:
        self._kept: list[tuple[float, bytes]] = []

    def note(self, data: bytes, seconds: float) -> None:
        cost = seconds / (len(data) + LONGEST_UNIT)
        if len(self._kept) == KEPT and cost <= self._kept[-1][0]:
            return
        self._kept = sorted([*self._kept, (cost, data)], reverse=True)[:KEPT]

    def inputs(self) -> list[bytes]:
        return [data for _, data in self._kept]


def worst(read: Read, inputs: Iterable[bytes], seed: int) -> Growth:
    """Return the largest growth that is there in each of several trials."""
    found = [_growth(read, *parts) for parts in _parts(inputs, random.Random(seed))]
    return max(found, default=Growth(0.0))


def _parts(inputs: Iterable[bytes], chance: random.Random) -> Iterator[tuple[bytes, bytes, bytes]]:
    for data in filter(None, inputs):
        for _ in range(UNITS):
            first = chance.randrange(len(data))
            last = min(len(data), first + chance.randint(1, LONGEST_UNIT))
            yield data[:first], data[first:last], data[last:]


def _growth(read: Read, before: bytes, unit: bytes, after: bytes) -> Growth:
    for size in SIZES:
        times = max(1, size // len(unit))
        ratio = _ratio(read, (before, unit, after), times)
        if ratio:
            return Growth(ratio, before, unit, after)
    return Growth(0.0)


def _ratio(read: Read, parts: tuple[bytes, bytes, bytes], times: int) -> float:
    """How much longer twice as many units take; 0 where that is too quick to tell."""
    before, unit, after = parts
    small = before + unit * times + after
    large = before + unit * times * 2 + after
    ratio = 0.0
    for trial in range(TRIALS):
        long = _seconds(read, large)
        if long < LEAST_SECONDS:
            return 0.0
        now = long / max(_seconds(read, small), 1e-6)
        ratio = now if trial == 0 else min(ratio, now)
        if ratio <= MOST_GROWTH:
            break
    return ratio


def _seconds(read: Read, data: bytes) -> float:
    began = time.process_time()
    read(data)
    return time.process_time() - began
