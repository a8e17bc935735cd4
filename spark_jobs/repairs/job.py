"""The job itself: choose, judge and edit in tasks of Spark, and end in one commit."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, LiteralString

import psycopg

from spark_jobs.contract import Arguments, Progress, Report, Tell
from spark_jobs.problems import JobError, Stopped
from spark_jobs.repairs.applying import apply
from spark_jobs.repairs.freezing import Part, Plan, Tables, frozen, still_frozen
from spark_jobs.repairs.owning import Ours, ours
from spark_jobs.repairs.parameters import RepairParameters
from spark_jobs.repairs.releasing import release
from spark_jobs.repairs.staging import stage
from spark_jobs.watching import watched

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Task = Callable[[Part], None]


def run(session: "SparkSession", arguments: Arguments, tell: Tell) -> Report:
    """Repair what was chosen. Raises JobError, Stopped, and the database's errors."""
    parameters = RepairParameters.of(arguments.parameters)
    with psycopg.connect(arguments.database, autocommit=True) as database:
        mine = ours(database, arguments.run)
        # Whoever may go on now has the epoch that was read: nobody raised it in between.
        tell.go_on()
        if mine.applied:
            return Report.done(arguments, mine.counts, mine.facts)
        plan = _planned(database, arguments, mine, parameters, tell)
        work = _Work(session, database, mine, plan, tell)
        try:
            judge = partial(stage, arguments.database, mine.run, parameters)
            work.each("judge", "SELECT count(*), coalesce(sum(rows), 0) FROM {judged}", judge)
            edit = partial(apply, arguments.database, mine)
            work.each("edit", "SELECT count(*), coalesce(sum(rows), 0) FROM {applied}", edit)
        except Stopped:
            work.stopped()
            raise
        counts, facts = release(database, mine, parameters, plan)
    tell.say(f"{facts['edited']:,} messages are edited, {facts['to_release']:,} to be released.")
    return Report.done(arguments, counts, facts)


def _planned(
    database: psycopg.Connection[Any],
    arguments: Arguments,
    mine: Ours,
    parameters: RepairParameters,
    tell: Tell,
) -> Plan:
    """What was chosen for this run, or chosen now and told."""
    if arguments.plan:
        plan = Plan.of(arguments.plan)
        still_frozen(database, mine.run, plan)
        return plan
    tell.progress(Progress(stage="choose", done=0, total=1))
    plan = frozen(database, mine, parameters)
    tell.planned(plan.told())
    tell.say(f"{plan.messages:,} messages are chosen.")
    return plan


class _Work:
    """The phases of a run: each goes through all parts, and somebody looks at it meanwhile."""

    def __init__(
        self,
        session: "SparkSession",
        database: psycopg.Connection[Any],
        mine: Ours,
        plan: Plan,
        tell: Tell,
    ) -> None:
        self.session = session
        self.database = database
        self.mine = mine
        self.parts: Sequence[Part] = plan.parts
        self.tell = tell
        self.tables = Tables(mine.run)

    def each(self, stage: str, how_far: LiteralString, task: Task) -> None:
        """Do the task with every part. Raises JobError, Stopped."""

        def watch() -> None:
            found = self.database.execute(self.tables.sql(how_far)).fetchone() or (0, 0)
            done, rows = found
            total = len(self.parts)
            self.tell.progress(Progress(stage=stage, done=done, total=total, rows=int(rows)))
            self.tell.go_on()

        watch()
        wanted = self.session.sparkContext.parallelize(self.parts, max(len(self.parts), 1))
        for problem in watched(self.session, self.mine.run, wanted.map(_told(task)).collect, watch):
            if problem is not None:
                raise JobError(*problem)
        watch()

    def stopped(self) -> None:
        """What was judged is taken away; what was chosen and edited is kept for another try."""
        self.database.execute(self.tables.sql("TRUNCATE {judged}, {results}"))
        found = self.database.execute(
            self.tables.sql("SELECT coalesce(sum(rows), 0) FROM {applied}")
        ).fetchone()
        if found is not None and found[0]:
            self.tell.say(
                f"Stopped: {found[0]:,} messages had their turn; what was edited stays so, on hold."
            )


def _told(task: Task) -> Callable[[Part], tuple[str, str, str] | None]:
    """The task with its problem as its answer: Spark would try it again otherwise."""

    def act(part: Part) -> tuple[str, str, str] | None:
        try:
            task(part)
        except JobError as e:
            return e.told
        return None

    return act
