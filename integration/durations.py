"""Durations as people write and read them: "10 s", "6 min 10 s", "7 d". Pure."""

import re
from datetime import timedelta
from decimal import Decimal
from typing import Final

# Longest first: the order in which a duration is told.
UNITS: Final = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
_WORDS: Final = {
    "s": 1,
    "sec": 1,
    "second": 1,
    "seconds": 1,
    "m": 60,
    "min": 60,
    "minute": 60,
    "minutes": 60,
    "h": 3_600,
    "hour": 3_600,
    "hours": 3_600,
    "d": 86_400,
    "day": 86_400,
    "days": 86_400,
    "w": 604_800,
    "week": 604_800,
    "weeks": 604_800,
}
_PART: Final = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)\s*([a-z]*)\s*", re.ASCII)
# Ten years: what is longer is a slip of the keyboard.
LONGEST_SECONDS: Final = 315_360_000


def read(text: str) -> float:
    """Seconds of "1 h 30 min", "90" or "1.5 h"; a number alone counts seconds.

    Raises ValueError with a sentence for people.
    """
    rest = text.strip().lower()
    total = Decimal(0)
    place = 0
    while place < len(rest):
        match = _PART.match(rest, place)
        unit = _WORDS.get(match[2] or "s") if match is not None else None
        if match is None or unit is None:
            raise ValueError(
                f"“{text.strip()[:40]}” is no duration: write 10 s, 5 min, 2 h or 7 d."
            )
        total += Decimal(match[1]) * unit
        place = match.end()
    if not rest:
        raise ValueError("Write a duration, such as 10 s, 5 min, 2 h or 7 d.")
    if total > LONGEST_SECONDS:
        raise ValueError("This is longer than ten years: write a shorter duration.")
    return float(total)


def read_list(text: str) -> list[float]:
    """Seconds of "10 s, 1 min, 5 min". Raises ValueError with a sentence for people."""
    return [read(part) for part in text.split(",") if part.strip()]


def written(seconds: float) -> str:
    """The shortest exact form that `read` understands: "6 min 10 s", "0.5 s"."""
    left = Decimal(str(seconds))
    parts = []
    for name, size in UNITS[:-1]:
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count:f} {name}")
    if left or not parts:
        shown = f"{left:f}"
        parts.append(f"{shown.rstrip('0').rstrip('.') if '.' in shown else shown} s")
    return " ".join(parts)


def rough(seconds: float) -> str:
    """The two largest units, for what need not be exact: "3 d 4 h", "0.4 s"."""
    if seconds < 10:
        return written(round(seconds, 1))
    return " ".join(written(round(seconds)).split(" ")[:4])


def spoken(length: timedelta | float) -> str:
    """The largest unit alone, for what passes: "3 days", "7 h", "90 s"; a number counts seconds."""
    seconds = max(length.total_seconds() if isinstance(length, timedelta) else length, 0)
    for name, size in (("days", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size:,.0f} {name}"
    return f"{seconds // 1:.0f} s"
