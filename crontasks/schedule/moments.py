"""The moments of a schedule: the next ones, and the last one that has come. Pure arithmetic."""

import math
from calendar import monthrange
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from itertools import islice
from typing import Final, Protocol
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from crontasks.errors import BadScheduleError
from crontasks.schedule.crontab import HOUR, Crontab, parse

SHORTEST_SECONDS: Final = 1
LONGEST_SECONDS: Final = 31 * 86_400
# 29 February falls on a given weekday after at most 40 years (around 2100, which has none).
_YEARS: Final = 41
_GOLDEN: Final = (math.sqrt(5) - 1) / 2


class Schedule(Protocol):
    """Moments in aware UTC."""

    def latest(self, now: datetime) -> datetime | None:
        """The last moment at or before `now`; None if there is none within 41 years."""

    def following(self, after: datetime) -> Iterator[datetime]:
        """The moments after `after`, in order."""


@dataclass(frozen=True, slots=True)
class Every:
    """Every so many seconds, counted from the epoch, so that two clocks name the same moments.

    `phase_seconds` spreads instances of one interval; without it a hundred queues would start
    in the same instant.
    """

    seconds: int
    phase_seconds: float = 0.0

    def latest(self, now: datetime) -> datetime | None:
        turns = math.floor((now.timestamp() - self.phase_seconds) / self.seconds)
        return self._moment(turns)

    def following(self, after: datetime) -> Iterator[datetime]:
        turns = math.floor((after.timestamp() - self.phase_seconds) / self.seconds)
        while True:
            moment = self._moment(turns)
            if moment > after:
                yield moment
            turns += 1

    def _moment(self, turns: int) -> datetime:
        # Whole milliseconds: the moment travels as text and must come back the same.
        milliseconds = round((turns * self.seconds + self.phase_seconds) * 1_000)
        return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=milliseconds)


@dataclass(frozen=True, slots=True)
class Timed:
    """A crontab on the clocks of a time zone.

    When clocks go forward, a time that does not exist runs as late as it would have without the
    change (02:30 becomes 03:30). When they go back, a time that exists twice runs once, at the
    first; only a schedule for every hour runs in both.
    """

    crontab: Crontab
    zone: ZoneInfo

    def latest(self, now: datetime) -> datetime | None:
        # A moment in a gap is an hour later than its date says, so tomorrow cannot be ruled out
        # and a day's moments are looked at as a whole.
        for day in self._days(now.astimezone(self.zone).date() + timedelta(days=1), back=True):
            past = [moment for moment in self._moments(day) if moment <= now]
            if past:
                return max(past)
        return None

    def following(self, after: datetime) -> Iterator[datetime]:
        last = after
        for day in self._days(after.astimezone(self.zone).date() - timedelta(days=1)):
            for moment in sorted(self._moments(day)):
                if moment > last:
                    last = moment
                    yield moment

    def _days(self, start: date, *, back: bool = False) -> Iterator[date]:
        """Matching days from `start` on (or back), for 41 years."""
        years = range(start.year, start.year - _YEARS, -1) if back else _ahead(start.year)
        for year in years:
            days = (
                date(year, month, day)
                for month in self.crontab.months
                for day in self.crontab.days
                if day <= monthrange(year, month)[1]
            )
            matching = [d for d in days if d.isoweekday() % 7 in self.crontab.weekdays]
            ordered = reversed(matching) if back else matching
            yield from (d for d in ordered if (d <= start if back else d >= start))

    def _moments(self, day: date) -> set[datetime]:
        folds = (0, 1) if self.crontab.hours == HOUR.all() else (0,)
        return {
            datetime.combine(day, time(hour, minute, fold=fold), self.zone).astimezone(UTC)
            for hour in self.crontab.hours
            for minute in self.crontab.minutes
            for fold in folds
        }


def _ahead(year: int) -> range:
    return range(year, min(year + _YEARS, 9_999))


def build(*, crontab: str, interval_seconds: int | None, zone: str, number: int = 0) -> Schedule:
    """The schedule of an instance: exactly one of crontab text and interval is given.

    `number` (the instance's id) picks its place within the interval. Raises BadScheduleError.
    """
    if bool(crontab.strip()) == (interval_seconds is not None):
        raise BadScheduleError("Give either a crontab or an interval, not both and not neither.")
    if interval_seconds is not None:
        if not SHORTEST_SECONDS <= interval_seconds <= LONGEST_SECONDS:
            raise BadScheduleError(
                f"An interval is {SHORTEST_SECONDS} to {LONGEST_SECONDS:,} seconds (31 days)."
            )
        return Every(interval_seconds, round(number * _GOLDEN % 1 * interval_seconds, 3))
    return Timed(parse(crontab), time_zone(zone))


def time_zone(name: str) -> ZoneInfo:
    """Raises BadScheduleError for a name that the time-zone database does not have."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as e:
        raise BadScheduleError(f"{name[:60]!r} is not a time zone such as Europe/Berlin.") from e


def upcoming(schedule: Schedule, after: datetime, count: int = 5) -> list[datetime]:
    """The next `count` moments after `after`; fewer if the schedule ends before."""
    return list(islice(schedule.following(after), count))
