"""The effect of a schedule, shown while it is being typed."""

from dataclasses import dataclass
from datetime import datetime

from django.utils import timezone

from crontasks.errors import BadScheduleError
from crontasks.schedule.moments import build, time_zone, upcoming
from crontasks.schedule.words import in_words


@dataclass(frozen=True, slots=True)
class Effect:
    """The effect of a schedule: in words, with its next moments; or why it is none."""

    words: str = ""
    moments: tuple[tuple[datetime, str], ...] = ()
    mistake: str = ""
    note: str = ""


def effect(crontab: str, interval_seconds: int | None, zone: str, number: int = 0) -> Effect:
    """Return the effect of these settings, with the next five moments on the schedule's clocks."""
    try:
        schedule = build(
            crontab=crontab, interval_seconds=interval_seconds, zone=zone, number=number
        )
        clocks = time_zone(zone)
    except BadScheduleError as problem:
        return Effect(mistake=str(problem))
    moments = upcoming(schedule, timezone.now())
    local = [moment.astimezone(clocks) for moment in moments]
    changes = len({moment.utcoffset() for moment in local}) > 1 and interval_seconds is None
    note = "The clocks of this time zone change between these moments." if changes else ""
    shown = tuple(
        (at, f"{there:%a %d %b, %H:%M:%S} {there:%Z}")
        for at, there in zip(moments, local, strict=True)
    )
    return Effect(in_words(schedule), shown, note=note)
