"""Failures per hour as a small drawing made on the server, with the same said in words."""

from collections.abc import Sequence
from typing import Final

from console.layout.charts import Bars, bars

STEP: Final = 5
HEIGHT: Final = 26


def trend_of(hours: Sequence[int]) -> Bars | None:
    """Draw counts by hour, oldest first; None where nothing was counted."""
    return bars(hours, _words(hours), step=STEP, height=HEIGHT) if hours else None


def _words(hours: Sequence[int]) -> str:
    total, top = sum(hours), max(hours)
    if not total:
        return f"None of them failed for the first time in the last {len(hours)} hours."
    ago = len(hours) - 1 - max(place for place, count in enumerate(hours) if count == top)
    when = "in the last hour" if ago == 0 else f"{ago} h ago"
    return (
        f"{total:,} of them failed for the first time in the last {len(hours)} hours; the most in "
        f"one hour: {top:,}, {when}."
    )
