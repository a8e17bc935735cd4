"""What a reconciliation is told: it came as JSON, and is checked before anything is read."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from spark_jobs.parameters import Refusal, read, refusal
from spark_jobs.topics.planning import Wanted

bad: Final[Refusal] = refusal("reconciliation")


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
        found = read(ReconcileParameters, said, bad)
        found.wanted.check()
        return found

    @property
    def wanted(self) -> Wanted:
        return Wanted(topic=self.topic, begin=self.begin, end=self.end)
