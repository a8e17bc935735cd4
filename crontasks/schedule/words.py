"""A schedule in words, for people who do not read crontabs."""

from calendar import day_name, month_name
from collections.abc import Callable, Sequence

from crontasks.schedule.crontab import DAY, HOUR, MINUTE, MONTH, WEEKDAY, Crontab
from crontasks.schedule.moments import Every, Schedule, Timed
from integration.counting import listed

_UNITS = ((86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second"))


def in_words(schedule: Schedule) -> str:
    """One sentence without a full stop.

    >>> from crontasks.schedule.moments import build
    >>> in_words(build(crontab="30 2 * * mon-fri", interval_seconds=None, zone="UTC"))
    'at 02:30 on Monday to Friday (UTC)'
    >>> in_words(build(crontab="", interval_seconds=90, zone="UTC"))
    'every 90 seconds'
    """
    match schedule:
        case Every(seconds=seconds):
            return _every(seconds)
        case Timed(crontab=crontab, zone=zone):
            return f"{_clock(crontab)}{_calendar(crontab)} ({zone.key})"
        case _:
            return "by its own rule"


def _every(seconds: int) -> str:
    for size, unit in _UNITS:
        if seconds % size == 0:
            count = seconds // size
            return f"every {unit}" if count == 1 else f"every {count:,} {unit}s"
    return f"every {seconds} seconds"


def _clock(crontab: Crontab) -> str:
    minutes, hours = crontab.minutes, crontab.hours
    if hours == HOUR.all():
        return _minutes(minutes)
    if len(minutes) * len(hours) <= 4:
        return "at " + listed([f"{h:02d}:{m:02d}" for h in hours for m in minutes])
    return f"{_minutes(minutes)} in the hours {runs(hours, lambda hour: f'{hour:02d}')}"


def _minutes(minutes: Sequence[int]) -> str:
    if tuple(minutes) == MINUTE.all():
        return "every minute"
    step = minutes[1] - minutes[0] if len(minutes) > 1 else 0
    if step and 60 % step == 0 and tuple(minutes) == MINUTE.all()[::step]:
        return f"every {step} minutes"
    if len(minutes) == 1:
        return "every hour" if minutes[0] == 0 else f"every hour at minute {minutes[0]}"
    return f"at the minutes {runs(minutes, str)}"


def _calendar(crontab: Crontab) -> str:
    words = []
    if crontab.weekdays != WEEKDAY.all():
        words.append(f" on {runs(crontab.weekdays, lambda day: day_name[day - 1])}")
    if crontab.days != DAY.all():
        lead = " if it is day" if words else " on day"
        words.append(f"{lead} {runs(crontab.days, str)} of the month")
    if crontab.months != MONTH.all():
        words.append(f" in {runs(crontab.months, lambda month: month_name[month])}")
    if not words and crontab.hours != HOUR.all():
        return " every day"
    return "".join(words)


def runs(values: Sequence[int], name: Callable[[int], str]) -> str:
    """`1,2,3,5` as `1 to 3 and 5`."""
    stretches: list[list[int]] = []
    for value in values:
        if stretches and value == stretches[-1][-1] + 1:
            stretches[-1].append(value)
        else:
            stretches.append([value])
    return listed([_run(run, name) for run in stretches])


def _run(run: list[int], name: Callable[[int], str]) -> str:
    if len(run) < 3:
        return listed([name(value) for value in run])
    return f"{name(run[0])} to {name(run[-1])}"
