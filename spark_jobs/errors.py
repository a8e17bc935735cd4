"""Reasons why a job cannot go on, as a person can use them."""

from collections.abc import Mapping
from typing import Final

_GOES_ON: Final = "Start the run again: it goes on where it stopped."


class JobError(Exception):
    """A job stops, and nothing of it counts: a stable code, what happened, what to do now."""

    def __init__(self, code: str, text: str, next_step: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text
        self.next_step = next_step

    @property
    def as_tuple(self) -> tuple[str, str, str]:
        return self.code, self.text, self.next_step

    def __reduce__(self) -> tuple[type["JobError"], tuple[str, str, str]]:
        # It travels from a task to the driver.
        return JobError, (self.code, self.text, self.next_step)


class Stopped(Exception):  # noqa: N818 - nothing is wrong: somebody asked for it
    """Somebody cancelled the job; what it has staged is taken away."""


def balance(counts: Mapping[str, int]) -> None:
    """Raise JobError UNBALANCED unless every row that was read went somewhere, and only once."""
    if counts["read"] != counts["sent"] + counts["rejected"] + counts["skipped"]:
        raise unbalanced(counts)


def unbalanced(counts: Mapping[str, int]) -> JobError:
    """Rows that were read went nowhere, or somewhere twice."""
    numbers = ", ".join(f"{count:,} {name}" for name, count in counts.items())
    return JobError(
        "UNBALANCED",
        f"The numbers do not add up: {numbers}.",
        "Keep the run and its source, and tell those who build Sluice.",
    )


def gone(code: str, what: str) -> JobError:
    """Make the error of a run whose subject has gone since it was asked for."""
    return JobError(
        code, f"There is no {what} any more.", "Start a new run with one that is there."
    )


def other_topic() -> JobError:
    """The queue's position is of another topic than the one that is read."""
    return JobError(
        "OTHER_TOPIC",
        "The queue stands in another topic of that name, one that was deleted since.",
        "Adopt the topic on the queue's page; then ask for a new run.",
    )


def not_staged(text: str, next_step: str = _GOES_ON) -> JobError:
    """Some of what the run needs is not in its tables."""
    return JobError("NOT_STAGED", text, next_step)


def changed(file: str) -> JobError:
    """A file is not what it was when its ranges were planned."""
    return JobError(
        "SOURCE_CHANGED",
        f"{file} is not the file any more that this run was planned for.",
        "Put the file back as it was, or start a new run.",
    )


def lost() -> JobError:
    """Another driver has taken the run: nothing of it is ours any more, and nothing is undone."""
    return JobError(
        "RUN_TAKEN",
        "Another driver has taken this run, because this one was silent for too long.",
        "Nothing: that driver goes on with it.",
    )


def spark_died() -> JobError:
    """The JVM went away under the job; what the job has staged is still there."""
    return JobError(
        "SPARK_DIED",
        "Spark's JVM ended under the job.",
        "Look into the driver's log, for memory above all; then drive the run again.",
    )
