"""How a driven run ends: its last state in its row, or back to those who can go on with it."""

from dataclasses import replace
from typing import Final

from django.db.models import QuerySet

from crontasks.bulk.errors import died
from crontasks.bulk.sending import MOST_DEATHS
from integration.clock import database_now
from integration.models import BulkRun
from integration.policy.states import BulkState
from spark_jobs.contract import JobState, Report
from spark_jobs.problems import JobError, spark_died

ENDS: Final = {
    JobState.DONE: BulkState.DONE,
    JobState.FAILED: BulkState.FAILED,
    JobState.CANCELLED: BulkState.CANCELLED,
}


def stops() -> JobError:
    """The driver ends; what the run has staged stays, and the next driver goes on with it."""
    return JobError(
        "DRIVER_STOPS",
        "The process that drives it was told to end.",
        "Nothing: the next Spark driver goes on with it.",
    )


def is_applied(row: BulkRun) -> bool:
    """Whether all of it is in the database."""
    return BulkRun.objects.filter(pk=row.pk, applied=True).exists()


def write(row: BulkRun, report: Report, *, gives_back: bool) -> None:
    """Write down how it ended, unless another driver has it by now."""
    ours = BulkRun.objects.filter(pk=row.pk, epoch=row.epoch, state=BulkState.RUNNING)
    is_done = is_applied(row)
    if gives_back and not is_done:
        is_dead = _is(report, spark_died())
        deaths = row.deaths + is_dead
        if _is(report, stops()) or (is_dead and deaths < MOST_DEATHS):
            _give_back(ours, deaths)
            return
        if is_dead:
            report = replace(report, problem=died(deaths).told)
    if not is_done:
        ours.update(counts=_counts(report))
    ours.update(
        state=BulkState.DONE if is_done else ENDS[report.state],
        problem=None if is_done or report.problem is None else list(report.problem),
        facts=dict(report.facts) or row.facts,
        ended_at=database_now(),
        lease_until=None,
    )


def _give_back(ours: QuerySet[BulkRun], deaths: int) -> None:
    ours.update(state=BulkState.ASKED, owner="", lease_until=None, sent_at=None, deaths=deaths)


def _is(report: Report, problem: JobError) -> bool:
    return report.problem is not None and report.problem[0] == problem.code


def _counts(report: Report) -> dict[str, int]:
    """Of a job that did not write them itself; none of one that did nothing."""
    names = ("read", "sent", "rejected", "skipped")
    return {n: getattr(report, n) for n in names} if report.state is JobState.DONE else {}
