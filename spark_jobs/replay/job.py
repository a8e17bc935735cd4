"""The job itself: plan, let tasks choose and keep messages, hand them out in one commit."""

from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import psycopg

from spark_jobs.contract import Arguments, Progress, Report, Tell
from spark_jobs.problems import JobError, Stopped
from spark_jobs.repairs.owning import ours
from spark_jobs.replay import giving, rebuilding, sending
from spark_jobs.replay.applying import Outcome, apply
from spark_jobs.replay.choosing import Chooser
from spark_jobs.replay.parameters import Into, ReplayParameters
from spark_jobs.replay.rebuilding import Judge
from spark_jobs.replay.sending import Sending
from spark_jobs.replay.staging import Choose, Stage, Take, keep_messages, stage
from spark_jobs.topics import planning
from spark_jobs.topics.cluster import Cluster
from spark_jobs.topics.planning import TopicPlan
from spark_jobs.topics.reading import kept, records
from spark_jobs.watching import watched

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Work(NamedTuple):
    """What every task is told."""

    arguments: Arguments
    parameters: ReplayParameters
    uuid: str


def run(session: "SparkSession", arguments: Arguments, tell: Tell) -> Report:
    """Hand out the chosen messages. Raises JobError, Stopped, and the database's errors."""
    parameters = ReplayParameters.of(arguments.parameters)
    tables = Stage(arguments.run)
    with psycopg.connect(arguments.database, autocommit=True) as database:
        mine = ours(database, arguments.run)
        # Whoever may go on now has the epoch that was read: nobody raised it in between.
        tell.go_on()
        if mine.applied:
            return Report.done(arguments, mine.counts, mine.facts)
        plan = _planned(database, parameters, arguments, tell)
        work = Work(arguments, parameters, plan.uuid)
        tables.make(database)
        hand_out = partial(_handed_out, database, tables, parameters, plan)
        try:
            shares = _stage_all(session, work, plan, (tables, database, tell))
            outcome = apply(database, tables, (mine, shares), hand_out)
        except Stopped:
            tables.drop(database)
            raise
    return Report.done(arguments, *outcome)


def _planned(
    database: psycopg.Connection[Any],
    parameters: ReplayParameters,
    arguments: Arguments,
    tell: Tell,
) -> TopicPlan:
    """What was planned for this run, if it is still there, or a plan made now and told."""
    cluster = Cluster(arguments.kafka)
    check(database, cluster, parameters)
    plan = planning.planned(cluster, parameters.wanted, arguments.plan)
    if not arguments.plan:
        tell.planned(plan.told())
    for one in plan.oldest:
        tell.say(f"Partition {one} begins with the oldest message that Kafka still has.")
    return plan


def check(
    database: psycopg.Connection[Any], cluster: Cluster, parameters: ReplayParameters
) -> None:
    """Look whether there is somewhere to go, before anything is read. Raises JobError."""
    if parameters.into is Into.TOPIC:
        cluster.topic(parameters.target)
    if parameters.into is Into.STRUCTURE:
        rebuilding.empty_structure(database, rebuilding.structure_of(parameters))


def _handed_out(
    database: psycopg.Connection[Any],
    tables: Stage,
    parameters: ReplayParameters,
    plan: TopicPlan,
) -> Outcome:
    match parameters.into:
        case Into.QUEUE:
            outcome = giving.give_back(database, tables, parameters, plan.uuid)
        case Into.STRUCTURE:
            outcome = rebuilding.rebuild(database, tables, parameters, plan.uuid)
        case _:
            outcome = sending.sent(database, tables)
    counts, facts = outcome
    ranges = {str(part.partition): [part.begin, part.end] for part in plan.parts}
    return counts, {"topic": plan.topic, "ranges": ranges, "oldest": list(plan.oldest), **facts}


Looking = tuple[Stage, psycopg.Connection[Any], Tell]


def _stage_all(session: "SparkSession", work: Work, plan: TopicPlan, looking: Looking) -> int:
    """Returns how many shares there are."""
    tables, database, tell = looking
    frame = records(session, work.arguments.kafka, plan)
    if frame is None:
        return 0
    rows = frame.selectExpr(*Chooser(work.parameters).columns()).rdd
    total = rows.getNumPartitions()

    def watch() -> None:
        done, share = tables.staged(database)
        tell.progress(Progress(stage="choose", done=done, total=total, rows=share.read))
        tell.go_on()

    def task(number: int, found: Iterable[Any]) -> Iterator[tuple[str, str, str]]:
        try:
            staged(work, number, iter(found))
        except JobError as e:
            yield e.told

    act = rows.mapPartitionsWithIndex(task).collect
    cluster = Cluster(work.arguments.kafka)
    for problem in kept(cluster, plan, partial(watched, session, work.arguments.run, act, watch)):
        raise JobError(*problem)
    watch()
    return int(total)


def staged(work: Work, number: int, rows: Iterator[Any]) -> None:
    """One task's share: choose and keep, or send."""
    parameters, chooser = work.parameters, Chooser(work.parameters)
    how: tuple[Choose, Take]
    match parameters.into:
        case Into.QUEUE:
            how = chooser.choose, keep_messages
        case Into.TOPIC:
            how = chooser.choose, Sending(work.arguments.kafka, parameters.target).keep
        case _:
            judge = Judge(parameters, work.uuid, chooser)
            how = judge.choose, judge.keep
    tables = Stage(work.arguments.run)
    stage(work.arguments.database, tables, number, chooser.found(rows), how)
