"""The job itself: plan, let tasks read offsets and judge them, put their accounts together."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import groupby, islice
from operator import itemgetter
from typing import Any, Final

import psycopg

from spark_jobs.contract import Progress
from spark_jobs.fencing import Outcome, note
from spark_jobs.reconcile import accounting, knowing
from spark_jobs.reconcile.accounting import PLACED, Account, Report
from spark_jobs.reconcile.fates import Fate, counted
from spark_jobs.reconcile.knowing import Reading
from spark_jobs.reconcile.parameters import ReconcileParameters
from spark_jobs.topics import planning
from spark_jobs.topics.planning import TopicPlan
from spark_jobs.topics.reading import KIND, in_shares
from spark_jobs.watching import progress_of
from spark_jobs.work import Work

# So many records are judged together: what is known of them is read in a few statements.
STRETCH: Final = 50_000
APPLICATION: Final = "sluice reconcile"


def run(work: Work) -> Outcome:
    """Say what became of every record of the range. Raises JobError, Stopped, database errors."""
    parameters = ReconcileParameters.of(work.arguments.parameters)
    plan = planning.planned(work, parameters)
    placed = work.owned.facts.get(PLACED, ())
    report = Report(parameters.file, work.owned.run, work.owned.epoch, placed)
    reading = knowing.begin(work.database, parameters.queue, plan.uuid)
    try:
        # Before all is read; where the file is put it is looked at once more.
        report.refuse_another()
        account = _account(work, plan, partial(_judged, work.arguments.database, reading, report))
        facts = _facts(plan, account)
        if report.file:
            size = report.joined(lambda known: note(work.database, work.owned, {PLACED: known}))
            facts |= {"file": report.file, "file_bytes": size}
    except BaseException:
        report.drop()
        raise
    return counted(account.fates), facts


def _account(
    work: Work, plan: TopicPlan, judge: Callable[[int, Iterator[Any]], Account]
) -> Account:
    def so_far() -> tuple[int, int]:
        done, total = progress_of(work.session, work.owned.run)
        return done, plan.offsets * done // max(total, 1)

    columns = "partition", "offset", f"{KIND} AS kind"
    accounts = in_shares(work, plan, "judge", columns, judge, so_far=so_far)
    tasks = len(accounts)
    # What Spark tells of its tasks comes a little later than their answers.
    work.tell.progress(Progress(stage="judge", done=tasks, total=tasks, rows=plan.offsets))
    return accounting.together(accounts)


def _judged(
    database: str, reading: Reading, report: Report, number: int, rows: Iterator[Any]
) -> Account:
    """Judge what one task reads; nothing of it is kept but counts and a bounded list."""
    account = Account()
    with (
        psycopg.connect(database, autocommit=True, application_name=APPLICATION) as session,
        report.share(number) as write,
    ):
        for partition, offsets in _stretches(rows):
            ends = offsets[0][0], offsets[-1][0]
            known = knowing.known(session, reading, partition, ends)
            write(account.add(partition, offsets, known))
    return account


def _stretches(rows: Iterator[Any]) -> Iterator[tuple[int, Sequence[tuple[int, int]]]]:
    """Records of one partition together, a bounded number at a time."""
    for partition, same in groupby(rows, key=itemgetter(0)):
        while offsets := [(row[1], row[2]) for row in islice(same, STRETCH)]:
            yield partition, offsets


def _facts(plan: TopicPlan, account: Account) -> dict[str, Any]:
    return {
        **plan.facts,
        "fates": {fate: account.fates[fate] for fate in map(str, Fate) if account.fates[fate]},
        "names": account.names,
        "named": [accounting.shown(name) for name in account.named],
    }
