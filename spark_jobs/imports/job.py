"""The job itself: plan, stage each range in a task of Spark, apply all in one commit."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import psycopg

from spark_jobs.contract import Arguments, JobState, Progress, Report, Tell
from spark_jobs.imports import planning
from spark_jobs.imports.mapping import Mapper
from spark_jobs.imports.parameters import Format, ImportParameters
from spark_jobs.imports.planning import Plan, Range
from spark_jobs.imports.reading import header_of
from spark_jobs.imports.staging import Stage, Staged, stage
from spark_jobs.imports.storing import applied, apply
from spark_jobs.problems import JobError, Stopped
from spark_jobs.watching import Watch, watched

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Work(NamedTuple):
    """What there is to do: the columns of each file by its name."""

    parameters: ImportParameters
    plan: Plan
    names: Mapping[str, Sequence[str]]


def run(session: "SparkSession", arguments: Arguments, tell: Tell) -> Report:
    """Import everything the source holds. Raises JobError, Stopped, and the database's errors."""
    parameters = ImportParameters.of(arguments.parameters)
    tables = Stage(arguments.run)
    with psycopg.connect(arguments.database, autocommit=True) as database:
        done = applied(database, arguments.run)
        if done is not None:
            return _report(arguments, done, Plan.known(arguments.plan))
        plan = _planned(arguments, parameters, tell)
        names = _names(plan, parameters)
        tables.make(database)

        def watch() -> None:
            staged = tables.staged(database)
            rows = sum(one.read for one in staged)
            total = len(plan.ranges)
            tell.progress(Progress(stage="stage", done=len(staged), total=total, rows=rows))
            tell.go_on()

        try:
            _stage_all(session, arguments, Work(parameters, plan, names), watch)
            watch()
        except Stopped:
            tables.drop(database)
            raise
        plan.check()
        counts = apply(database, arguments.run, parameters, plan)
    return _report(arguments, counts, plan)


def _report(arguments: Arguments, counts: Mapping[str, int], plan: Plan) -> Report:
    return Report(
        job=arguments.job,
        run=arguments.run,
        state=JobState.DONE,
        read=counts["read"],
        sent=counts["sent"],
        rejected=counts["rejected"],
        skipped=counts["skipped"],
        facts={"bytes": plan.bytes, "files": len(plan.files), "ranges": len(plan.ranges)},
    )


def _planned(arguments: Arguments, parameters: ImportParameters, tell: Tell) -> Plan:
    """What was planned for this run, or a plan made now and told."""
    if arguments.plan:
        return Plan.of(arguments.plan)
    made = planning.plan(parameters)
    tell.planned(made.told())
    return made


def _names(plan: Plan, parameters: ImportParameters) -> dict[str, list[str]]:
    """The columns of each file; an empty file has none, and no range either."""
    if parameters.format is not Format.CSV:
        return {part.file: [] for part in plan.ranges}
    found: dict[str, list[str]] = {}
    for part in plan.ranges:
        if part.file not in found:
            found[part.file] = header_of(Path(part.file), parameters)
            Mapper(parameters, found[part.file])  # an unknown column is told before rows are read
    return found


def _stage_all(
    session: "SparkSession",
    arguments: Arguments,
    work: Work,
    watch: Watch,
) -> None:
    database, run_id = arguments.database, arguments.run
    parameters, plan, names = work

    def task(part: Range) -> Staged | tuple[str, str, str]:
        try:
            return stage(database, run_id, parameters, names[part.file], part)
        except JobError as e:
            return e.told

    wanted = session.sparkContext.parallelize(plan.ranges, max(len(plan.ranges), 1))
    for answer in watched(session, run_id, wanted.map(task).collect, watch):
        if not isinstance(answer, Staged):
            raise JobError(*answer)
