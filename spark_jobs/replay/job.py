"""The job itself: plan, let tasks choose and keep messages, hand them out in one commit."""

from collections.abc import Iterator
from functools import partial
from typing import Any

from spark_jobs.contract import Arguments
from spark_jobs.errors import Stopped, not_staged
from spark_jobs.fencing import Claim, Outcome, discard, settle
from spark_jobs.replay import giving, rebuilding
from spark_jobs.replay.choosing import Chooser
from spark_jobs.replay.parameters import Into, ReplayParameters
from spark_jobs.replay.rebuilding import Judge
from spark_jobs.replay.sending import Sending, sent
from spark_jobs.replay.staging import Choose, Stage, Take, keep_messages, stage
from spark_jobs.sending import begin
from spark_jobs.staging import Session
from spark_jobs.topics import planning
from spark_jobs.topics.cluster import Cluster
from spark_jobs.topics.planning import TopicPlan
from spark_jobs.topics.reading import in_shares
from spark_jobs.work import Work


def run(work: Work) -> Outcome:
    """Hand out the chosen messages. Raises JobError, Stopped, and the database's errors."""
    parameters = ReplayParameters.of(work.arguments.parameters)
    work.tell.go_on()
    check(work.database, Cluster(work.arguments.kafka), parameters)
    plan = planning.planned(work, parameters)
    tables = Stage(work.owned.run)
    if parameters.into is Into.TOPIC:
        begin(work)
    tables.make(work.database)

    def staged() -> tuple[int, int]:
        count, share = tables.staged(work.database)
        return count, share.read

    try:
        act = partial(keep, work.arguments, parameters, plan.uuid)
        columns = Chooser(parameters).columns()
        shares = in_shares(work, plan, "choose", columns, act, so_far=staged)
        hand_out = partial(_handed_out, work.database, tables, (parameters, plan), len(shares))
        return settle(work.database, work.owned, tables, hand_out)
    except Stopped:
        if parameters.into is Into.TOPIC:
            # Without its stage another try would send once more what is out.
            out = tables.staged(work.database)[1].chosen
            work.tell.say(f"Cancelled when {out:,} messages were out; let again, it sends others.")
        else:
            discard(work.database, work.owned, tables)
        raise


def check(database: Session, cluster: Cluster, parameters: ReplayParameters) -> None:
    """Look whether there is somewhere to go, before anything is read. Raises JobError."""
    if parameters.into is Into.TOPIC:
        cluster.topic(parameters.target)
    if parameters.into is Into.STRUCTURE:
        rebuilding.empty_structure(database, rebuilding.structure_of(parameters))


def keep(
    arguments: Arguments, parameters: ReplayParameters, uuid: str, number: int, rows: Iterator[Any]
) -> None:
    """One task's share: choose and keep, or send."""
    chooser = Chooser(parameters)
    how: tuple[Choose, Take]
    match parameters.into:
        case Into.QUEUE:
            how = chooser.choose, partial(keep_messages, chooser.order_value)
        case Into.TOPIC:
            how = chooser.choose, Sending(arguments.kafka, parameters.target).keep
        case _:
            judge = Judge(parameters, uuid, chooser)
            how = judge.choose, judge.keep
    stage(arguments.database, Stage(arguments.run), number, chooser.records(rows), how)


def _handed_out(
    database: Session,
    tables: Stage,
    what: tuple[ReplayParameters, TopicPlan],
    shares: int,
    claim: Claim,
) -> Outcome:
    """Hand out what is staged, in the commit that ends the run. Raises JobError, Stopped."""
    if claim.is_cancelled:
        raise Stopped
    staged, _ = tables.staged(database)
    if staged != shares:
        raise not_staged(f"{staged:,} of {shares:,} shares are staged.")
    parameters, plan = what
    match parameters.into:
        case Into.QUEUE:
            counts, facts = giving.give_back(database, tables, parameters, plan.uuid)
        case Into.TOPIC:
            counts, facts = sent(database, tables)
        case _:
            counts, facts = rebuilding.rebuild(database, tables, parameters, plan.uuid)
    return counts, {**plan.facts, **facts}
