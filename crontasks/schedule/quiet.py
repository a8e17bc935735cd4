"""Quiet hours: "22:00-06:00, sat-sun 00:00-24:00" on the clocks of a time zone. Pure."""

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from crontasks.errors import BadScheduleError
from crontasks.schedule.moments import time_zone

DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
MOST_PARTS: Final = 14
_DAY_MINUTES: Final = 1_440
_PART: Final = re.compile(
    r"(?:(mon|tue|wed|thu|fri|sat|sun)(?:-(mon|tue|wed|thu|fri|sat|sun))? +)?"
    r"(\d{2}):(\d{2}) *- *(\d{2}):(\d{2})",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class Span:
    """From one minute of a day to another, on these weekdays (Monday is 0).

    An end that is not behind the beginning lies on the next day.
    """

    days: frozenset[int]
    begins: int
    ends: int

    def holds(self, local: datetime) -> bool:
        minute, today = local.hour * 60 + local.minute, local.weekday()
        if self.begins < self.ends:
            return today in self.days and self.begins <= minute < self.ends
        yesterday = (local - timedelta(days=1)).weekday()
        begun = today in self.days and minute >= self.begins
        return begun or (yesterday in self.days and minute < self.ends)


@dataclass(frozen=True, slots=True)
class QuietHours:
    """Spans on the clocks of a time zone; none of them: it is never quiet."""

    spans: tuple[Span, ...]
    zone: ZoneInfo

    def holds(self, now: datetime) -> bool:
        """Return whether it is quiet at this moment."""
        local = now.astimezone(self.zone)
        return any(span.holds(local) for span in self.spans)


def quiet_hours(text: str, zone: str) -> QuietHours:
    """Read quiet hours; "none" is a text that says so. Raises ValueError with a sentence.

    >>> at = datetime.fromisoformat("2026-03-02T05:59:00+00:00")
    >>> quiet_hours("22:00-06:00", "UTC").holds(at)
    True
    >>> quiet_hours("22:00-06:00", "Asia/Tokyo").holds(at)
    False
    """
    try:
        clocks = time_zone(zone)
    except BadScheduleError as problem:
        raise ValueError(problem.sentence) from problem
    if text.strip().lower() == "none":
        return QuietHours((), clocks)
    parts = text.lower().split(",")
    if len(parts) > MOST_PARTS:
        raise ValueError(f"There are more than {MOST_PARTS} quiet spans.")
    return QuietHours(tuple(_span(part.strip()) for part in parts), clocks)


def _span(text: str) -> Span:
    match = _PART.fullmatch(text)
    if match is None:
        raise ValueError(
            f"“{text[:40]}” is no span of a day: write 22:00-06:00, or sat-sun 00:00-24:00."
        )
    first, last, *clock = match.groups()
    begins, ends = _minute(clock[0], clock[1]), _minute(clock[2], clock[3])
    if begins in {_DAY_MINUTES, ends}:
        raise ValueError(f"“{text[:40]}” begins and ends at the same time.")
    return Span(_days(first, last), begins, ends)


def _days(first: str | None, last: str | None) -> frozenset[int]:
    if first is None:
        return frozenset(range(7))
    begin = DAYS.index(first)
    end = begin if last is None else DAYS.index(last)
    return frozenset((begin + step) % 7 for step in range((end - begin) % 7 + 1))


def _minute(hours: str, minutes: str) -> int:
    minute = int(hours) * 60 + int(minutes)
    if int(minutes) > 59 or minute > _DAY_MINUTES:
        raise ValueError(f"{hours}:{minutes} is no time of a day (00:00 to 24:00).")
    return minute
