"""The job itself: plan, let tasks read offsets and judge them, put their accounts together."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import psycopg

from spark_jobs.contract import Arguments, Progress, Report, Tell
from spark_jobs.problems import JobError
from spark_jobs.reconcile import accounting, knowing
from spark_jobs.reconcile.accounting import Account, Names
from spark_jobs.reconcile.fates import Fate, counted
from spark_jobs.reconcile.knowing import Reading
from spark_jobs.reconcile.parameters import ReconcileParameters
from spark_jobs.topics import planning
from spark_jobs.topics.cluster import Cluster
from spark_jobs.topics.planning import TopicPlan
from spark_jobs.topics.reading import KIND, kept, records
from spark_jobs.watching import progress_of, watched

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# So many records are judged together: what is known of them is read in a few statements.
STRETCH: Final = 50_000
APPLICATION: Final = "sluice reconcile"


class Work(NamedTuple):
    """What every task is told."""

    run: str
    database: str
    reading: Reading
    file: str


def run(session: "SparkSession", arguments: Arguments, tell: Tell) -> Report:
    """Say what became of every record of the range. Raises JobError, Stopped, database errors."""
    parameters = ReconcileParameters.of(arguments.parameters)
    cluster = Cluster(arguments.kafka)
    plan = _planned(cluster, parameters, arguments, tell)
    with psycopg.connect(arguments.database, autocommit=True) as database:
        reading = knowing.begin(database, parameters.queue, plan.uuid)
    work = Work(arguments.run, arguments.database, reading, parameters.file)
    frame = records(session, arguments.kafka, plan)
    try:
        account = Account()
        if frame is not None:
            account = kept(cluster, plan, lambda: _account(session, frame, (work, plan), tell))
        tell.go_on()
        facts = _facts(plan, account)
        if parameters.file:
            facts |= {"file": parameters.file, "file_bytes": accounting.joined(parameters.file)}
    except BaseException:
        accounting.drop(parameters.file)
        raise
    return Report.done(arguments, counted(account.fates)._asdict(), facts)


def _planned(
    cluster: Cluster, parameters: ReconcileParameters, arguments: Arguments, tell: Tell
) -> TopicPlan:
    """What was planned for this run, if it is still there, or a plan made now and told."""
    plan = planning.planned(cluster, parameters.wanted, arguments.plan)
    if not arguments.plan:
        tell.planned(plan.told())
    for partition in plan.oldest:
        tell.say(
            f"Partition {partition} begins with the oldest message that Kafka still has: whether "
            "older ones belonged to the range cannot be told any more."
        )
    return plan


def _account(
    session: "SparkSession", frame: "DataFrame", what: tuple[Work, TopicPlan], tell: Tell
) -> Account:
    work, plan = what
    columns = frame.selectExpr("partition", "offset", f"{KIND} AS kind")

    def task(number: int, rows: Iterable[Any]) -> Iterator[dict[str, Any]]:
        try:
            yield _judged(number, rows, work)
        except JobError as e:
            yield {"problem": e.told}

    def watch() -> None:
        done, total = progress_of(session, work.run)
        read = plan.offsets * done // max(total, 1)
        tell.progress(Progress(stage="judge", done=done, total=total, rows=read))
        tell.go_on()

    answers = watched(session, work.run, columns.rdd.mapPartitionsWithIndex(task).collect, watch)
    for answer in answers:
        if "problem" in answer:
            raise JobError(*answer["problem"])
    tasks = len(answers)
    tell.progress(Progress(stage="judge", done=tasks, total=tasks, rows=plan.offsets))
    return accounting.together(answers)


def _judged(number: int, rows: Iterable[Any], work: Work) -> dict[str, Any]:
    """What one task reads; nothing of it is kept but counts and a bounded list."""
    account = Account()
    with (
        psycopg.connect(work.database, autocommit=True, application_name=APPLICATION) as session,
        Names(work.file, number) as names,
    ):
        for partition, offsets in _stretches(rows):
            ends = offsets[0][0], offsets[-1][0]
            known = knowing.known(session, work.reading, partition, ends)
            names.write(account.add(partition, offsets, known))
    return account.told()


def _stretches(rows: Iterable[Any]) -> Iterator[tuple[int, Sequence[tuple[int, int]]]]:
    """Records of one partition together, a bounded number at a time."""
    for partition, found in groupby(rows, key=itemgetter(0)):
        while offsets := [(row[1], row[2]) for row in islice(found, STRETCH)]:
            yield partition, offsets


def _facts(plan: TopicPlan, account: Account) -> dict[str, Any]:
    return {
        "topic": plan.topic,
        "ranges": {str(part.partition): [part.begin, part.end] for part in plan.parts},
        "oldest": list(plan.oldest),
        "fates": {fate: account.fates[fate] for fate in map(str, Fate) if account.fates[fate]},
        "names": account.names,
        "named": [accounting.shown(name) for name in account.named],
    }
