"""The job itself: choose, judge and edit in tasks of Spark, and end in one commit."""

from functools import partial
from typing import Final, LiteralString

from spark_jobs.contract import Progress
from spark_jobs.errors import Stopped
from spark_jobs.fencing import Outcome, fence
from spark_jobs.repairs.applying import apply, stage
from spark_jobs.repairs.freezing import Plan, Tables, frozen, still_frozen
from spark_jobs.repairs.parameters import RepairParameters
from spark_jobs.repairs.releasing import release
from spark_jobs.work import Work

_JUDGED: Final = "SELECT count(*), coalesce(sum(rows), 0)::bigint FROM {judged}"
_APPLIED: Final = "SELECT count(*), coalesce(sum(rows), 0)::bigint FROM {applied}"


def run(work: Work) -> Outcome:
    """Repair what was chosen. Raises JobError, Stopped, and the database's errors."""
    parameters = RepairParameters.of(work.arguments.parameters)
    work.tell.go_on()
    plan = _planned(work, parameters)
    tables, database = Tables(work.owned.run), work.arguments.database

    def so_far(statement: LiteralString) -> tuple[int, int]:
        return work.database.execute(tables.sql(statement)).fetchone() or (0, 0)

    try:
        judge = partial(stage, database, work.owned.run, parameters)
        work.each("judge", plan.parts, judge, partial(so_far, _JUDGED))
        edit = partial(apply, database, work.owned)
        work.each("edit", plan.parts, edit, partial(so_far, _APPLIED))
    except Stopped:
        # What was chosen and edited is kept for another try, and all of it for another driver.
        with work.database.transaction():
            work.database.execute(tables.sql("TRUNCATE {judged}, {results}"))
            fence(work.database, work.owned)
        _, turns = so_far(_APPLIED)
        if turns:
            work.tell.say(
                f"Stopped: {turns:,} messages had their turn; what was edited stays so, on hold."
            )
        raise
    counts, facts = release(work.database, work.owned, parameters, plan)
    work.tell.say(
        f"{facts['edited']:,} messages are edited, {facts['to_release']:,} to be released."
    )
    return counts, facts


def _planned(work: Work, parameters: RepairParameters) -> Plan:
    """Return what was chosen for this run, or choose now."""
    if not work.arguments.plan:
        work.tell.progress(Progress(stage="choose", done=0, total=1))
    plan = work.planned(Plan, partial(frozen, work.database, work.owned, parameters))
    if work.arguments.plan:
        still_frozen(work.database, work.owned.run, plan)
    else:
        work.tell.say(f"{plan.messages:,} messages are chosen.")
    return plan
