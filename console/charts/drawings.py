"""The drawings of the charts page: bars by the hour, and lines of percentiles, with their words."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from console.layout import charts
from console.layout.charts import WIDE, Bars, Chart, chart
from integration.durations import rough
from integration.selectors.charts import (
    HOUR,
    HOURS,
    CauseLine,
    FailureChart,
    Hours,
    Latency,
    Throughput,
)

HEIGHT: Final = 96
LOW: Final = 34
STEP: Final = 20
PERCENTILES: Final = (
    ("50 % within", "half"),
    ("95 % within", "most"),
    ("99 % within", "nearly_all"),
)


@dataclass(frozen=True, slots=True)
class HourRow:
    """One hour in the table beneath the charts. `is_last`: it is not over yet."""

    begins: datetime
    failures: int
    throughput: Throughput
    latency: Latency
    is_last: bool


def bars(
    counts: Sequence[int | None], words: str, *, height: int = HEIGHT, highest: int = 0
) -> Bars:
    """Draw counts by the hour, oldest first; an hour that nobody knows has no bar."""
    return charts.bars(counts, _text(counts, words), step=STEP, height=height, highest=highest)


def cause_rows(failures: FailureChart) -> list[tuple[CauseLine, Bars]]:
    """A row of bars for each cause, on the scale of the largest."""
    highest = max((max(line.hours) for line in failures.causes), default=0)
    return [
        (line, bars(line.hours, "first failures", height=LOW, highest=highest))
        for line in failures.causes
    ]


def latency_lines(hours: Hours, latencies: Sequence[Latency]) -> list[tuple[str, Chart]]:
    """A line for half, 95 % and 99 % of the messages, on one scale; none where nothing ended."""
    known = [one.nearly_all for one in latencies if one.nearly_all is not None]
    highest = max(known, default=0.0)
    lines = []
    for words, name in PERCENTILES:
        drawn = _line(hours, [getattr(one, name) for one in latencies], words, highest)
        if drawn is not None:
            lines.append((words, drawn))
    return lines


def hour_rows(
    hours: Hours,
    failures: FailureChart,
    throughput: Sequence[Throughput],
    latency: Sequence[Latency],
) -> list[HourRow]:
    """Everything again as a table, the newest hour first."""
    rows = [
        HourRow(begins, failures.hours[at], throughput[at], latency[at], at == HOURS - 1)
        for at, begins in enumerate(hours.begins)
    ]
    return rows[::-1]


def _line(hours: Hours, values: Sequence[float | None], words: str, highest: float) -> Chart | None:
    pieces: list[list[tuple[datetime, float]]] = [[]]
    for begins, value in zip(hours.begins, values, strict=True):
        if value is None:
            pieces.append([])
        else:
            pieces[-1].append((begins + HOUR / 2, value))
    known = [value for value in values if value is not None]
    if not known:
        return None
    text = f"{words} {rough(min(known))} to {rough(max(known))}, by the hour."
    end = hours.begins[-1] + HOUR
    return chart(
        [piece for piece in pieces if piece],
        until=end,
        within=HOUR * HOURS,
        text=text,
        size=WIDE,
        highest=highest,
    )


def _text(counts: Sequence[int | None], words: str) -> str:
    known = [count for count in counts if count is not None]
    if not known:
        return f"No figures are known for the last {len(counts)} hours."
    return (
        f"{sum(known):,} {words} in the last {len(counts)} hours, "
        f"at most {max(known):,} in one hour."
    )
