"""Failures per hour as a small drawing made on the server, with the same said in words."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

WIDTH: Final = 120
HEIGHT: Final = 26
GAP: Final = 1


@dataclass(frozen=True, slots=True)
class Trend:
    """What the template draws: `path` has a bar for each hour; `words` says the same."""

    path: str
    words: str
    width: int = WIDTH
    height: int = HEIGHT


def trend_of(hours: Sequence[int]) -> Trend | None:
    """Draw counts by hour, oldest first; None where nothing was counted."""
    if not hours:
        return None
    top, step = max(hours), WIDTH // len(hours)
    bars = []
    for place, count in enumerate(hours):
        if count:
            height = max(2, round(count / top * HEIGHT))
            wide = step - GAP
            bars.append(f"M{place * step} {HEIGHT}v-{height}h{wide}v{height}z")
    return Trend("".join(bars), _words(hours))


def _words(hours: Sequence[int]) -> str:
    total, top = sum(hours), max(hours)
    if not total:
        return f"None of them failed first in the last {len(hours)} hours."
    ago = len(hours) - 1 - max(place for place, count in enumerate(hours) if count == top)
    when = "in the last hour" if ago == 0 else f"{ago} h ago"
    return (
        f"{total:,} of them failed first in the last {len(hours)} hours; most within one hour, "
        f"{top:,}, {when}."
    )
