"""The job itself: plan, stage each range in a task of Spark, send or store, in one commit."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import psycopg

from spark_jobs.contract import Arguments, Progress, Report, Tell
from spark_jobs.imports import planning, sources
from spark_jobs.imports.mapping import Mapper
from spark_jobs.imports.owning import Owned, applied, own
from spark_jobs.imports.parameters import ImportParameters
from spark_jobs.imports.planning import Plan
from spark_jobs.imports.rows import Range
from spark_jobs.imports.sending import Sending, prepare, send, sent
from spark_jobs.imports.staging import Stage, stage
from spark_jobs.imports.storing import apply
from spark_jobs.problems import Stopped
from spark_jobs.watching import in_tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Session = psycopg.Connection[Any]


class Work(NamedTuple):
    """What there is to do, and whose it is."""

    session: "SparkSession"
    arguments: Arguments
    tell: Tell
    owned: Owned
    parameters: ImportParameters
    plan: Plan


def run(session: "SparkSession", arguments: Arguments, tell: Tell) -> Report:
    """Import everything the source holds. Raises JobError, Stopped, and the database's errors."""
    parameters = ImportParameters.of(arguments.parameters)
    with psycopg.connect(arguments.database, autocommit=True) as database:
        done = applied(database, arguments.run)
        if done is not None:
            return _report(arguments, done, Plan.known(arguments.plan))
        owned = own(database, arguments.run)
        plan = _planned(arguments, parameters, tell)
        work = Work(session, arguments, tell, owned, parameters, plan)
        _stage_all(database, work)
        plan.check()
        if parameters.target is not None:
            _send_all(database, work)
        counts = apply(database, owned, parameters, plan)
    return _report(arguments, counts, plan)


def _report(arguments: Arguments, counts: Mapping[str, int], plan: Plan) -> Report:
    facts = {"bytes": plan.bytes, "files": len(plan.files), "ranges": len(plan.ranges)}
    return Report.done(arguments, counts, facts)


def _planned(arguments: Arguments, parameters: ImportParameters, tell: Tell) -> Plan:
    """What was planned for this run, or a plan made now and told."""
    if arguments.plan:
        return Plan.of(arguments.plan)
    made = planning.plan(parameters)
    tell.planned(made.told())
    return made


def _stage_all(database: Session, work: Work) -> None:
    """Judge every row. What was staged is taken away when somebody cancels it."""
    tables = Stage(work.owned.run)
    plan, parameters = work.plan, work.parameters
    where, run_id = work.arguments.database, work.owned.run
    names = sources.names_of((part.file for part in plan.ranges), parameters)
    for columns in names.values():
        Mapper(parameters, columns)  # an unknown column is told before rows are read
    tables.make(database, parameters)

    def watch() -> None:
        staged = tables.staged(database)
        _tell(work, "stage", len(staged), sum(one.read for one in staged))

    def act(part: Range) -> object:
        return stage(where, run_id, parameters, names[part.file], part)

    try:
        _in_tasks(work, act, watch)
        watch()
    except Stopped:
        tables.drop(database)
        raise


def _send_all(database: Session, work: Work) -> None:
    """Send what counts. What was staged stays when somebody cancels it: some of it is out."""
    arguments, parameters = work.arguments, work.parameters
    prepare(database, work.owned, parameters, work.plan)
    what = Sending(arguments.database, arguments.kafka, work.owned, parameters)

    def watch() -> None:
        out = sent(database, work.owned)
        _tell(work, "send", len(out), sum(one.records for one in out))

    try:
        _in_tasks(work, lambda part: send(what, part), watch)
        watch()
    except Stopped:
        out = sum(one.records for one in sent(database, work.owned))
        work.tell.say(f"Cancelled when {out:,} messages were out; let again, it sends the others.")
        raise


def _tell(work: Work, stage: str, done: int, rows: int) -> None:
    total = len(work.plan.ranges)
    stages = () if work.parameters.target is None else ("stage", "send")
    work.tell.progress(Progress(stage=stage, done=done, total=total, rows=rows, stages=stages))
    work.tell.go_on()


def _in_tasks(work: Work, act: Callable[[Range], object], watch: Callable[[], None]) -> None:
    """Do something with each range, in a task of its own. Raises what is refused in them."""
    in_tasks(work.session, work.owned.run, work.plan.ranges, act, watch)
