"""What a reconciliation is told: it came as JSON, and is checked before anything is read."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from spark_jobs.problems import JobError
from spark_jobs.topics.planning import Wanted


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconcileParameters:
    """An inbound queue, its topic, and the range of it, as `topics.planning.bound` reads it.

    `provider` is for whoever fills in `Arguments.kafka`. Every offset that is named goes to `file`
    where one is given: a path that all workers see.
    """

    provider: int
    queue: int
    topic: str
    begin: str = ""
    end: str = ""
    file: str = ""

    @staticmethod
    def of(said: Mapping[str, Any]) -> "ReconcileParameters":
        """Check and read them. Raises JobError BAD_PARAMETERS."""
        known = {field.name for field in fields(ReconcileParameters)}
        if unknown := sorted(set(said) - known):
            raise _bad(f"there is no parameter {unknown[0]!r}")
        try:
            read = ReconcileParameters(**said)
        except TypeError as e:
            raise _bad(str(e)) from e
        read.wanted.check()
        return read

    @property
    def wanted(self) -> Wanted:
        return Wanted(topic=self.topic, begin=self.begin, end=self.end)


def _bad(why: str) -> JobError:
    return JobError(
        "BAD_PARAMETERS",
        f"The reconciliation cannot be run as it is asked for: {why}.",
        "Correct the parameter and start the run again.",
    )
