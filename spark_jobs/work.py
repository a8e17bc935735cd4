"""One run under way: what every job goes through, apart from what it does with its parts."""

import math
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

import psycopg

from integration.delivery.garbage_collection import calm_collector
from spark_jobs.contract import Arguments, Heed, Progress, Tell
from spark_jobs.errors import JobError
from spark_jobs.fencing import Claim, Owned, claimed
from spark_jobs.parameters import RunPlan
from spark_jobs.watching import LOOK_SECONDS, Answer, raise_refusal, watched

if TYPE_CHECKING:
    from pyspark import Accumulator
    from pyspark.sql import SparkSession

Part = TypeVar("Part")
Plan = TypeVar("Plan", bound=RunPlan)
# Problems that may be over at a task's next try; other refusals of a job are at once final.
_PASSING: Final = frozenset({"NOT_DELIVERED", "STORAGE_FAILED"})
TRIES: Final = 3


@dataclass(frozen=True, slots=True)
class Work:
    """Spark, what was asked for, who is told of it, the database, and whose the run is.

    Tasks cannot have it: they are given what they need of it.
    """

    session: "SparkSession"
    arguments: Arguments
    tell: Tell
    database: psycopg.Connection[Any]
    owned: Owned

    def claimed(self) -> AbstractContextManager[Claim]:
        """A transaction in which nobody takes the run; short, for its lease is not renewed."""
        return claimed(self.database, self.owned)

    def planned(self, kind: type[Plan], make: Callable[[], Plan]) -> Plan:
        """Return the plan of this run, or make one now and store it."""
        if self.arguments.plan:
            return kind.of(self.arguments.plan)
        made = make()
        self.tell.planned(made.as_json())
        return made

    def heeding(self) -> Heed:
        """Return what the driver's own work calls, as often as it likes, as `watched` calls itself.

        Twice a second at most it writes the progress down. Raises Stopped, JobError RUN_TAKEN.
        """
        looked_at = -math.inf

        def heed(progress: Progress | None) -> None:
            nonlocal looked_at
            now = time.monotonic()
            if now < looked_at + LOOK_SECONDS:
                return
            looked_at = now
            if progress is not None:
                self.tell.progress(progress)
            self.tell.go_on()

        return heed

    def watched(
        self,
        stage: str,
        total: int,
        act: Callable[[], Answer],
        so_far: Callable[[], tuple[int, int]],
        *,
        stages: Sequence[str] = (),
    ) -> Answer:
        """Return what an action of Spark returns, and say meanwhile how far it is.

        `so_far` tells how much of the total is done, and how many rows that were. Raises Stopped,
        JobError RUN_TAKEN, and what the action raises.
        """

        def watch() -> None:
            done, rows = so_far()
            progress = Progress(stage=stage, done=done, total=total, rows=rows, stages=stages)
            self.tell.progress(progress)
            self.tell.go_on()

        watch()
        answer = watched(self.session, self.arguments.run, act, watch)
        watch()
        return answer

    def counter(self) -> "Accumulator[int]":
        """Tasks add to it, and only here it is read."""
        return self.session.sparkContext.accumulator(0)

    def each(
        self,
        stage: str,
        parts: Sequence[Part],
        act: Callable[[Part], Answer],
        so_far: Callable[[], tuple[int, int]],
        *,
        stages: Sequence[str] = (),
    ) -> list[Answer]:
        """Do something with each part, in a task of its own, and return what came of each.

        Raises what is refused in them.
        """

        def task(part: Part) -> Answer | JobError:
            from pyspark import TaskContext  # noqa: PLC0415 - as in session.py

            try:
                with calm_collector():
                    return act(part)
            except JobError as e:
                context = TaskContext.get()
                tries = context.attemptNumber() + 1 if context is not None else TRIES
                if e.code in _PASSING and tries < TRIES:
                    raise
                return e

        tasks = self.session.sparkContext.parallelize(parts, max(len(parts), 1)).map(task)
        answers = self.watched(stage, len(parts), tasks.collect, so_far, stages=stages)
        raise_refusal(answers)
        return [answer for answer in answers if not isinstance(answer, JobError)]
