"""An export into a queue: plan, stage every message of one moment, send them, write it down.

Nothing goes out before every row was read. Whatever stops it, the messages that are staged are
those that a rerun sends: the same ones, under the same ids.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import psycopg

from spark_jobs.contract import Arguments, Progress, Report, Tell
from spark_jobs.exports import planning
from spark_jobs.exports.parameters import ExportParameters
from spark_jobs.exports.planning import Plan
from spark_jobs.exports.selecting import selection
from spark_jobs.exports.sending import Sending, send
from spark_jobs.exports.staging import Stage, stage
from spark_jobs.exports.writing import Source
from spark_jobs.fencing import apply, claimed
from spark_jobs.imports.owning import Owned, own
from spark_jobs.problems import JobError, Stopped, unbalanced
from spark_jobs.tables.reading import moment
from spark_jobs.topics.target import Target
from spark_jobs.watching import in_tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Database = psycopg.Connection[Any]
STAGES: Final = ("stage", "send")


class Work(NamedTuple):
    """What there is to do, and whose it is."""

    session: "SparkSession"
    arguments: Arguments
    tell: Tell
    owned: Owned
    tables: Stage


def run(
    session: "SparkSession", arguments: Arguments, parameters: ExportParameters, tell: Tell
) -> Report:
    """Send everything that is wanted. Raises JobError, Stopped, and the database's errors."""
    target = parameters.target
    assert target is not None  # noqa: S101 - else it goes into files
    with psycopg.connect(arguments.database, autocommit=True) as database:
        with claimed(database, arguments) as claim:
            if claim.applied:
                return _report(arguments, claim.counts, target)
            owned = own(database, arguments.run)
        work = Work(session, arguments, tell, owned, Stage(arguments.run))
        plan = _known(arguments)
        if plan is None or not work.tables.is_whole(database, len(plan.ranges)):
            plan = _stage_all(database, work, parameters)
        _send_all(database, work, target, plan)
        counts = _settle(database, work, plan)
    return _report(arguments, counts, target)


def _known(arguments: Arguments) -> Plan | None:
    return Plan.of(arguments.plan) if arguments.plan else None


def _stage_all(database: Database, work: Work, parameters: ExportParameters) -> Plan:
    """Stage all of one moment; nothing of it stays where it cannot be done."""
    arguments, tell, owned, tables = work.arguments, work.tell, work.owned, work.tables
    with database.transaction():
        tables.remake(database)
        # Last: while that waits for an earlier driver's tasks, the run's lease is renewed.
        with claimed(database, arguments):
            pass
    try:
        with moment(arguments.database) as held:
            plan = planning.planned(held, arguments, parameters, tell)
            chosen = selection(parameters)
            count = planning.count(held, chosen)
            tell.say(f"{count:,} rows in {len(plan.ranges):,} ranges.")
            source = Source(arguments.database, held.snapshot, parameters, chosen)

            def watch() -> None:
                sums = tables.sums(database)
                _tell(work, plan, "stage", (sums.ranges, sums.rows))

            in_tasks(
                work.session,
                arguments.run,
                plan.ranges,
                lambda part: stage(source, owned, part),
                watch,
            )
            watch()
        staged = tables.sums(database)
        if (staged.ranges, staged.rows) != (len(plan.ranges), count):
            raise unbalanced({"read": count, "staged": staged.rows})
    except (JobError, Stopped):
        _forget(database, work)
        raise
    tables.order(database)
    with claimed(database, arguments):
        tables.seal(database)
    return plan


def _forget(database: Database, work: Work) -> None:
    """Take what was staged away, unless another driver is at work with it by now."""
    with claimed(database, work.arguments):
        work.tables.drop(database)


def _send_all(database: Database, work: Work, target: Target, plan: Plan) -> None:
    """What was staged stays when somebody cancels it: some of it is out."""
    arguments, tables = work.arguments, work.tables
    what = Sending(arguments.database, arguments.kafka, work.owned, target)

    def watch() -> None:
        sums = tables.sums(database)
        _tell(work, plan, "send", (sums.ranges_sent, sums.sent))

    try:
        in_tasks(work.session, arguments.run, plan.ranges, lambda part: send(what, part), watch)
        watch()
    except Stopped:
        out = tables.sums(database).sent
        work.tell.say(f"Cancelled when {out:,} messages were out; let again, it sends the others.")
        raise


def _tell(work: Work, plan: Plan, stage_: str, came_to: tuple[int, int]) -> None:
    done, rows = came_to
    total = len(plan.ranges)
    work.tell.progress(Progress(stage=stage_, done=done, total=total, rows=rows, stages=STAGES))
    work.tell.go_on()


def _settle(database: Database, work: Work, plan: Plan) -> Mapping[str, int]:
    """Write down, in one commit, that all of it is in Kafka; only while the run is ours."""
    with claimed(database, work.arguments) as claim:
        if claim.applied:
            return claim.counts
        sums = work.tables.sums(database)
        counts = {"read": sums.rows, "sent": sums.sent, "rejected": 0, "skipped": 0}
        if sums.rows != sums.sent or sums.ranges_sent != len(plan.ranges):
            raise unbalanced(counts)
        apply(database, work.arguments.run, counts)
        work.tables.drop(database)
    return counts


def _report(arguments: Arguments, counts: Mapping[str, int], target: Target) -> Report:
    return Report.done(arguments, counts, {"topic": target.topic})
