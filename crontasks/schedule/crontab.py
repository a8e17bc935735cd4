"""The five fields of a schedule, read with bounds before anything is expanded.

Text comes from people and from imports. The usual libraries expand a range before they look at
its limits, so that `1--100000000 * * * *` holds a process for minutes; nothing here loops over
a number that was not compared with the field's own limits first.
"""

import re
from calendar import month_abbr
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from crontasks.errors import BadScheduleError

LONGEST_TEXT: Final = 200
_ITEM: Final = re.compile(
    r"(?P<first>\*|[0-9]{1,2}|[a-z]{3})(?:-(?P<last>[0-9]{1,2}|[a-z]{3}))?(?:/(?P<step>[0-9]{1,2}))?"
)
_LONGEST_MONTH: Final = {2: 29, 4: 30, 6: 30, 9: 30, 11: 30}


@dataclass(frozen=True, slots=True)
class Field:
    """One of the five: its name for people, its limits, and words for its numbers."""

    title: str
    least: int
    most: int
    names: tuple[str, ...] = ()

    def all(self) -> tuple[int, ...]:
        return tuple(range(self.least, self.most + 1))


MINUTE: Final = Field("minute", 0, 59)
HOUR: Final = Field("hour", 0, 23)
DAY: Final = Field("day of month", 1, 31)
MONTH: Final = Field("month", 1, 12, tuple(name.lower() for name in month_abbr))
# 7 is Sunday, too, in what people write; it is stored as 0.
WEEKDAY: Final = Field("day of week", 0, 6, ("sun", "mon", "tue", "wed", "thu", "fri", "sat"))
FIELDS: Final = (MINUTE, HOUR, DAY, MONTH, WEEKDAY)


@dataclass(frozen=True, slots=True)
class Crontab:
    """A read schedule: which minutes, hours, days, months and weekdays (0 = Sunday) match.

    A day has to match both the day of month and the day of week.
    """

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: tuple[int, ...]
    months: tuple[int, ...]
    weekdays: tuple[int, ...]

    def fields(self) -> Iterator[tuple[Field, tuple[int, ...]]]:
        values = (self.minutes, self.hours, self.days, self.months, self.weekdays)
        return zip(FIELDS, values, strict=True)

    def texts(self) -> list[str]:
        """The five fields in their plainest form: `*`, or numbers and commas."""
        return [
            "*" if values == field.all() else ",".join(map(str, values))
            for field, values in self.fields()
        ]


def parse(text: str) -> Crontab:
    """Read five fields. Raises BadScheduleError; takes time in proportion to 200 characters.

    >>> parse("*/15 8-17 * * mon-fri").texts()
    ['0,15,30,45', '8,9,10,11,12,13,14,15,16,17', '*', '*', '1,2,3,4,5']
    """
    if len(text) > LONGEST_TEXT:
        raise BadScheduleError(f"A schedule has at most {LONGEST_TEXT} characters.")
    parts = text.split()
    if len(parts) != len(FIELDS):
        raise BadScheduleError(f"A schedule has five fields; {text!r} has {len(parts)}.")
    crontab = Crontab(*(_values(field, part) for field, part in zip(FIELDS, parts, strict=True)))
    if not any(day <= _LONGEST_MONTH.get(m, 31) for m in crontab.months for day in crontab.days):
        raise BadScheduleError(f"The days of {text!r} never come: no such month is so long.")
    return crontab


def _values(field: Field, text: str) -> tuple[int, ...]:
    values: set[int] = set()
    for item in text.lower().split(","):
        values.update(_expand(field, item))
    return tuple(sorted(values))


def _expand(field: Field, item: str) -> Iterator[int]:
    match = _ITEM.fullmatch(item)
    if match is None:
        raise BadScheduleError(
            f"{item[:40]!r} is no {field.title}: write *, */n, a number, or a range such as "
            f"{field.least}-{field.most}."
        )
    step = _step(field, match["step"], item)
    if match["first"] == "*":
        if match["last"]:
            raise BadScheduleError(f"{item!r}: a range begins with a {field.title}, not with *.")
        return iter(field.all()[::step])
    first = _number(field, match["first"])
    if match["last"] is None:
        if match["step"]:
            raise BadScheduleError(f"{item!r}: a step needs * or a range before it.")
        return iter((first % 7,) if field is WEEKDAY else (first,))
    last = _number(field, match["last"])
    if last < first:
        raise BadScheduleError(f"{item!r} goes backwards: the first {field.title} is the smaller.")
    return _folded(field, range(first, last + 1, step))


def _folded(field: Field, values: range) -> Iterator[int]:
    return (value % 7 for value in values) if field is WEEKDAY else iter(values)


def _step(field: Field, text: str | None, item: str) -> int:
    step = 1 if text is None else int(text)
    if not 1 <= step <= field.most:
        raise BadScheduleError(f"{item!r}: the step of a {field.title} is 1 to {field.most}.")
    return step


def _number(field: Field, text: str) -> int:
    if text in field.names:
        return field.names.index(text)
    most = 7 if field is WEEKDAY else field.most
    if not text.isdigit() or not field.least <= int(text) <= most:
        raise BadScheduleError(f"{text!r} is no {field.title} ({field.least} to {most}).")
    return int(text)
