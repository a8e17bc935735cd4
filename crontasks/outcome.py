"""The context that a cron task is given, and the outcome of its run."""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

EXCERPT_LINES: Final = 200
LINE_LENGTH: Final = 300
TEXT_LENGTH: Final = 2_000


class RunState(StrEnum):
    """The state of a run, or its end."""

    RUNNING = "RUNNING"  # at work, or its process died without a word
    DONE = "DONE"  # did what it was for
    FAILED = "FAILED"  # could not do its work; the text says why
    TIMED_OUT = "TIMED_OUT"  # stopped at the instance's time limit
    LOST = "LOST"  # its process ended without a word


BAD_ENDINGS: Final = (RunState.FAILED, RunState.TIMED_OUT, RunState.LOST)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a run. Without counts and text it did nothing, and no row is kept of it."""

    counts: Mapping[str, int] = field(default_factory=dict)
    text: str = ""
    state: RunState = RunState.DONE

    @property
    def is_empty(self) -> bool:
        return self.state is RunState.DONE and not self.text and not any(self.counts.values())


NOTHING: Final = Outcome()


def _never() -> bool:
    return False


@dataclass(slots=True, kw_only=True)
class Context:
    """The facts a run may know: who it acts for, its scheduled time, and whether it must end.

    `user` is the user with whose rights it runs; None where it runs with nobody's, and `actor` is
    only a name.

    `should_stop()` turns true when the worker shuts down; long tasks ask between chunks.
    `say()` keeps a line for the run's page; the excerpt holds the last 200 lines.
    """

    instance_id: int
    scheduled_at: datetime
    actor: str = "cron task"
    queue_id: int | None = None
    user: Any = None
    should_stop: Callable[[], bool] = _never
    _lines: deque[str] = field(default_factory=lambda: deque(maxlen=EXCERPT_LINES))

    def say(self, line: str) -> None:
        self._lines.append(line if len(line) <= LINE_LENGTH else f"{line[: LINE_LENGTH - 1]}…")

    @property
    def excerpt(self) -> str:
        return "\n".join(self._lines)
