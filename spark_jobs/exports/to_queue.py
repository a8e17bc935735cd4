"""An export into a queue: plan, stage every message of one moment, send them, write it down.

Nothing goes out before every row was read. Whatever stops it, the messages that are staged are
those that a rerun sends: the same ones, under the same ids.
"""

from functools import partial

from spark_jobs.errors import JobError, Stopped, unbalanced
from spark_jobs.exports.parameters import ExportParameters
from spark_jobs.exports.planning import Plan
from spark_jobs.exports.reading import opened
from spark_jobs.exports.staging import Stage, send, stage
from spark_jobs.fencing import Outcome, discard, fence, settle
from spark_jobs.sending import STAGES, Sending, send_all
from spark_jobs.topics.target import Target
from spark_jobs.work import Work


def run(work: Work, parameters: ExportParameters, target: Target) -> Outcome:
    """Send everything that is wanted. Raises JobError, Stopped, and the database's errors."""
    arguments, tables = work.arguments, Stage(work.owned.run)
    plan = Plan.of(arguments.plan) if arguments.plan else None
    if plan is None or not tables.is_whole(work.database, len(plan.ranges)):
        plan = _stage_all(work, tables, parameters)
    what = Sending(arguments.database, arguments.kafka, work.owned, target)
    send_all(work, tables, plan.ranges, partial(send, what))
    ranges = len(plan.ranges)

    def finish(_: object) -> Outcome:
        sums = tables.sums(work.database)
        counts = {"read": sums.rows, "sent": sums.sent, "rejected": 0, "skipped": 0}
        if sums.ranges_sent != ranges:
            raise unbalanced(counts)
        return counts, {"topic": target.topic}

    return settle(work.database, work.owned, tables, finish)


def _stage_all(work: Work, tables: Stage, parameters: ExportParameters) -> Plan:
    """Stage all of one moment; nothing of it stays where it cannot be done."""
    database, owned = work.database, work.owned
    with database.transaction():
        tables.remake(database)
        # Last: while that waits for an earlier driver's tasks, the run's lease is renewed.
        fence(database, owned)
    try:
        with opened(work, parameters) as (source, plan, count):
            act = partial(stage, source, owned)
            work.each("stage", plan.ranges, act, lambda: tables.sums(database)[:2], stages=STAGES)
        staged = tables.sums(database)
        if (staged.ranges, staged.rows) != (len(plan.ranges), count):
            raise unbalanced({"read": count, "staged": staged.rows})
    except (JobError, Stopped):
        discard(database, owned, tables)
        raise
    tables.order(database)
    with work.claimed():
        tables.seal(database)
    return plan
