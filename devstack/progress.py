"""One line per step on the terminal, with the seconds it took."""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

_one_at_a_time = threading.Lock()


class Step:
    """A step under way; `note` is added to its line."""

    def __init__(self) -> None:
        self.note = ""


@contextmanager
def step(title: str, *, at_first: str = "") -> Iterator[Step]:
    """Print `title` and the seconds when the block ends, also when it fails.

    `at_first` is printed at once, for steps long enough to make a person wonder.
    """
    began = time.monotonic()
    if at_first:
        say(f"  ..  {title}: {at_first}")
    under_way = Step()
    try:
        yield under_way
    except BaseException:
        say(line("XX", title, time.monotonic() - began, under_way.note))
        raise
    say(line("ok", title, time.monotonic() - began, under_way.note))


def line(mark: str, title: str, seconds: float, note: str = "") -> str:
    """Lay out one finished step.

    >>> line("ok", "PostgreSQL", 0.52, "port 25000")
    '  ok  PostgreSQL                    0.5 s  port 25000'
    """
    return f"  {mark}  {title:<28}{seconds:5.1f} s  {note}".rstrip()


def say(text: str) -> None:
    """Print whole lines: steps that run side by side do not cut into each other."""
    with _one_at_a_time:
        print(text, flush=True)


def loud(text: str) -> None:
    """Print what must not be overlooked."""
    with _one_at_a_time:
        print(f"\n!!  {text}\n", file=sys.stderr, flush=True)
