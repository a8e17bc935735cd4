"""The job itself: plan, stage each range in a task of Spark, send or store, in one commit."""

from functools import partial

from spark_jobs.contract import Heed
from spark_jobs.errors import Stopped
from spark_jobs.fencing import Outcome, discard, settle
from spark_jobs.imports import planning, sources
from spark_jobs.imports.mapping import Mapper
from spark_jobs.imports.parameters import ImportParameters
from spark_jobs.imports.planning import Plan
from spark_jobs.imports.rows import Range
from spark_jobs.imports.sending import prepare, send
from spark_jobs.imports.staging import Reading, Stage, stage
from spark_jobs.imports.storing import finish
from spark_jobs.sending import STAGES, Sending, say_sent, send_all
from spark_jobs.storage import Storage
from spark_jobs.work import Work


def run(work: Work) -> Outcome:
    """Import everything the source holds. Raises JobError, Stopped, and the database's errors."""
    parameters = ImportParameters.of(work.arguments.parameters)
    storage = Storage.of(work.arguments.storage)
    make = partial(planning.plan, parameters, storage=storage, heed=work.heeding())
    plan = work.planned(Plan, make)
    tables = Stage(work.owned.run)
    tables.make(work.database, parameters)
    _stage_all(work, tables, parameters, plan)
    if parameters.target is not None:
        prepare(work.database, tables, parameters, plan)
        what = Sending(work.arguments.database, work.arguments.kafka, work.owned, parameters.target)
        send_all(work, tables, plan.ranges, partial(send, what))
    facts = {"bytes": plan.bytes, "files": len(plan.files), "ranges": len(plan.ranges)}

    def store(_: object) -> Outcome:
        return finish(work.database, tables, parameters, plan), facts

    return settle(work.database, work.owned, tables, store)


def _stage_all(work: Work, tables: Stage, parameters: ImportParameters, plan: Plan) -> None:
    """Judge every row. When somebody cancels it, what was staged goes, unless some of it is out."""
    where, run_id = work.arguments.database, work.owned.run
    storage = Storage.of(work.arguments.storage)
    left = plan.without(tables.staged(work.database))
    stages = () if parameters.target is None else STAGES
    try:
        names = _names_of(left, parameters, storage, work.heeding())
        facts, numbers = left.facts, {part.number for part in left.ranges}

        def act(part: Range) -> None:
            if part.number in numbers:
                file = part.file
                stage(where, run_id, Reading(parameters, names[file], facts[file], storage), part)

        work.each("stage", plan.ranges, act, lambda: tables.sums(work.database)[:2], stages=stages)
    except Stopped:
        _take_away(work, tables)
        raise


def _names_of(
    left: Plan, parameters: ImportParameters, storage: Storage, heed: Heed
) -> dict[str, list[str]]:
    """The names of the values in each file that is read yet; the others may be gone by now."""
    left.check(storage, heed)
    names = sources.names_of((part.file for part in left.ranges), parameters, storage, heed)
    for columns in names.values():
        Mapper(parameters, columns)  # an unknown column is told before rows are read
    # None of the names is of a file that was there in between.
    left.check(storage, heed)
    return names


def _take_away(work: Work, tables: Stage) -> None:
    """Drop what was staged, unless some of it is out: nothing else knows what was sent.

    Raises JobError RUN_TAKEN.
    """
    with work.database.transaction():
        # A task that sends yet, of a driver that lost the run, first writes down that it has.
        work.database.execute(tables.sql("LOCK TABLE {ranges} IN ACCESS EXCLUSIVE MODE"))
        is_kept = tables.sums(work.database).ranges_sent > 0
        if not is_kept:
            discard(work.database, work.owned, tables)
    if is_kept:
        say_sent(work, tables)
