"""Little charts drawn by the server: lines over time as the path of an SVG, with words."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

SPARK: Final = (110, 26)
WIDE: Final = (640, 130)

Line = Sequence[tuple[datetime, float]]


@dataclass(frozen=True, slots=True)
class Chart:
    """A line chart for a template: each path is one unbroken piece of the line.

    `text` says the same to those who do not see it.
    """

    width: int
    height: int
    paths: tuple[str, ...]
    text: str
    highest: float


def chart(
    pieces: Iterable[Line],
    *,
    until: datetime,
    within: timedelta,
    text: str,
    size: tuple[int, int] = SPARK,
    highest: float = 0,
) -> Chart | None:
    """Draw from `until` - `within` to `until`, and from 0 to the highest value; None = no line."""
    lines = [list(piece) for piece in pieces]
    top = max((value for line in lines for _, value in line), default=0)
    top = max(top, highest)
    width, height = size
    place = _placing(until - within, within, top, size)
    paths = tuple(_path([place(at, value) for at, value in line]) for line in lines if line)
    return Chart(width, height, paths, text, top) if paths else None


def _placing(
    begin: datetime, within: timedelta, top: float, size: tuple[int, int]
) -> Callable[[datetime, float], tuple[float, float]]:
    width, height = size

    def place(at: datetime, value: float) -> tuple[float, float]:
        x = (at - begin) / within * width
        # One pixel above and below stays free for the line's own thickness.
        y = height - 1 - (value / top * (height - 2) if top else 0)
        return round(min(max(x, 0), width), 1), round(y, 1)

    return place


def _path(places: list[tuple[float, float]]) -> str:
    first, *others = places
    # A single sample is a dot: a line of no length with round ends.
    rest = others or [first]
    return f"M{first[0]} {first[1]}" + "".join(f"L{x} {y}" for x, y in rest)


@dataclass(frozen=True, slots=True)
class Bars:
    """Bars as the path of an SVG; `text` says the same, `highest` is the scale."""

    path: str
    text: str
    highest: int
    width: int
    height: int


def bars(
    counts: Sequence[int | None], text: str, *, step: int, height: int, highest: int = 0
) -> Bars:
    """Draw a bar for each count, `step` pixels wide with its gap; what nobody knows has none."""
    top = max([highest, *(count for count in counts if count is not None)])
    wide = step - max(1, step // 6)
    parts = []
    for place, count in enumerate(counts):
        if count:
            # A bar of the least that there is can still be seen.
            tall = max(2, round(count / top * height))
            parts.append(f"M{place * step} {height}v-{tall}h{wide}v{tall}z")
    return Bars("".join(parts), text, top, step * len(counts), height)
