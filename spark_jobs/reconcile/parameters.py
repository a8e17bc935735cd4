"""The parameters of a reconciliation: which range of a topic, and which queue."""

from dataclasses import dataclass
from typing import ClassVar

from spark_jobs.topics.planning import Wanted


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconcileParameters(Wanted):
    """An inbound queue, its topic, and the range of it.

    `provider` is for whoever fills in `Arguments.kafka`. Every offset that is named goes to `file`
    where one is given: a path that all workers see.
    """

    JOB: ClassVar[str] = "reconciliation"
    provider: int
    queue: int
    file: str = ""
