"""Runs a stored run of a bulk job in this process's Spark session."""

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.conf import settings
from django.db import DatabaseError, close_old_connections, connections
from django.db.models import Case, F, PositiveIntegerField, Q, When
from django.db.models.functions import Now

from crontasks.bulk import storage
from crontasks.bulk.asking import arguments_of
from crontasks.bulk.sending import MOST_DEATHS, as_problem, died
from crontasks.running import outage
from integration.documents.refusals import plain_text
from integration.errors import IntegrationError
from integration.models import BulkRun
from integration.policy.states import BulkState
from integration.selectors.bulk.runs import LEASE
from integration.store import dependencies
from integration.store.sessions import database_now, database_time
from spark_jobs.contract import JobState, Progress, Report, Tell
from spark_jobs.errors import JobError, Stopped, lost, spark_died
from spark_jobs.running import run as run_job
from spark_jobs.running import unforeseen
from spark_jobs.session import SessionSettings, open_session

UI: Final = "spark.ui.enabled"
RENEWED_SECONDS: Final = 5.0
# Of a run's log so many lines are kept.
LOG_LINES: Final = 200
Heed = Callable[[], None]
"""Asked wherever a job may stop: raises Stopped, or what the driver stops it by."""
logger = logging.getLogger(__name__)


def _nobody() -> None:
    """Nobody but the run's row stops the job."""


class RowTell(Tell):
    """Tells by the run's row; an owner that lost it hears so, and undoes nothing."""

    def __init__(self, run: UUID, epoch: int, heed: Heed = _nobody) -> None:
        self._row = BulkRun.objects.filter(pk=run, epoch=epoch, state=BulkState.RUNNING)
        self._heed = heed
        self._last: dict[str, Any] = {}

    def progress(self, progress: Progress) -> None:
        self._last = paced(asdict(progress), self._last, database_time())
        self._row.update(progress=self._last)

    def planned(self, plan: Mapping[str, Any]) -> None:
        if not self._row.update(plan=dict(plan)):
            raise lost()

    def say(self, line: str) -> None:
        for log, now in self._row.annotate(now=Now()).values_list("log", "now"):
            lines = [*log.splitlines(), f"{now:%Y-%m-%d %H:%M:%S} {plain_text(line)}"]
            self._row.update(log="\n".join(lines[-LOG_LINES:]))

    def go_on(self) -> None:
        ours = list(self._row.values_list("cancel_asked_at", flat=True))
        if not ours:
            raise lost()
        if ours[0] is not None:
            raise Stopped
        self._heed()

    def stay(self) -> None:
        """Renew the lease."""
        self._row.update(lease_until=database_now() + LEASE)


def paced(progress: Mapping[str, Any], last: Mapping[str, Any], at: datetime) -> dict[str, Any]:
    """The progress at that moment, beside where its stage began in this start.

    What was done before, by a try that stopped, is no measure of the pace: with it the rows a
    second and the time to go would be too good. `last` is what this driver wrote before, if it did.
    """
    begun = {
        "since": at.isoformat(),
        "done_before": progress["done"],
        "rows_before": progress["rows"],
    }
    if last.get("stage") == progress["stage"]:
        begun = {name: last[name] for name in begun}
    return {**progress, "at": at.isoformat(), **begun}


@contextmanager
def _staying(tell: RowTell) -> Iterator[None]:
    """The lease is renewed by a thread: planning and the commit of a large run take minutes."""
    over = threading.Event()

    def stay() -> None:
        while not over.wait(RENEWED_SECONDS):
            try:
                tell.stay()
            except DatabaseError:
                close_old_connections()
        connections.close_all()

    thread = threading.Thread(target=stay, name="bulk lease", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def drive(
    run: UUID, *, owner: str, heed: Heed = _nobody, gives_back: bool = False
) -> BulkRun | None:
    """Run it to its end and write down what came of it; None when it is not ours to run.

    Two that drive one run: the second finds it taken. One whose driver died is taken over when
    its lease has run out, with its plan, and goes on where that one stopped. With `gives_back` a
    run whose Spark died, or whose driver stops, waits for the next driver. Raises DatabaseError.
    """
    row = _taken(run, owner)
    if row is None:
        return None
    tell = RowTell(row.pk, row.epoch, heed)
    if row.deaths:
        tell.say(f"Taken over by {owner}: the driver before it died.")
    report = _driven(row, tell)
    close_old_connections()
    if report.state is not JobState.DONE and _is_applied(row):
        # What is in the database is done, whatever was heard of its commit: the job reports it.
        row.refresh_from_db()
        report = _driven(row, tell)
    _end(row, report, gives_back=gives_back)
    # It may have stored what messages wait for.
    dependencies.wake_all()
    row.refresh_from_db()
    return row


def _taken(run: UUID, owner: str) -> BulkRun | None:
    is_left = Q(state=BulkState.RUNNING, lease_until__lt=database_now())
    taken = BulkRun.objects.filter(Q(state=BulkState.ASKED) | is_left, pk=run).update(
        state=BulkState.RUNNING,
        owner=owner[:200],
        epoch=F("epoch") + 1,
        deaths=Case(
            When(state=BulkState.RUNNING, then=F("deaths") + 1),
            default=F("deaths"),
            output_field=PositiveIntegerField(),
        ),
        lease_until=database_now() + LEASE,
        started_at=database_now(),
    )
    return BulkRun.objects.get(pk=run) if taken else None


def _driven(row: BulkRun, tell: RowTell) -> Report:
    """Run it and report, also what nobody foresaw; raises only what ends the database."""
    try:
        with _staying(tell):
            return _run(row, tell)
    except Exception as e:
        if outage.is_of_database(e):
            raise  # The lease runs out, and the next driver goes on.
        logger.exception("a bulk run could not be driven", extra={"run": str(row.pk)})
        return _failed(row, unforeseen(e))


def _run(row: BulkRun, tell: RowTell) -> Report:
    try:
        storage.prove_sentinel(row)
        arguments = arguments_of(row)
        session = open_session(session_settings())
    except JobError as e:
        return _failed(row, e)
    except IntegrationError as e:
        return _failed(row, JobError(e.code, e.sentence, e.next_step))
    return run_job(session, arguments, tell)


def _failed(row: BulkRun, problem: JobError) -> Report:
    failed = JobState.FAILED
    return Report(job=row.job, run=str(row.pk), state=failed, problem=as_problem(problem))


def session_settings() -> SessionSettings:
    """The installation's settings for Spark."""
    shown = {UI: "true"} if settings.SLUICE_SPARK_UI else {}
    return SessionSettings(
        master=settings.SLUICE_SPARK_MASTER,
        memory_mb=settings.SLUICE_SPARK_MEMORY_MB,
        jars=settings.SLUICE_SPARK_JARS,
        extra={**shown, **settings.SLUICE_SPARK_CONF},
    )


def stops() -> JobError:
    """The driver ends; what the run has staged stays, and the next driver goes on with it."""
    return JobError(
        "DRIVER_STOPS",
        "The process that drives it was told to end.",
        "Nothing: the next Spark driver goes on with it.",
    )


def _is_applied(row: BulkRun) -> bool:
    """Return whether all of it is in the database."""
    return BulkRun.objects.filter(pk=row.pk, applied=True).exists()


def _end(row: BulkRun, report: Report, *, gives_back: bool) -> None:
    """Write down how it ended, or give it back, unless another driver has it by now."""
    ours = BulkRun.objects.filter(pk=row.pk, epoch=row.epoch, state=BulkState.RUNNING)
    is_done = _is_applied(row)
    code = None if report.problem is None else report.problem[0]
    if gives_back and not is_done and code in {stops().code, spark_died().code}:
        deaths = row.deaths + (code == spark_died().code)
        if code == stops().code or deaths < MOST_DEATHS:
            asked = BulkState.ASKED
            ours.update(state=asked, owner="", lease_until=None, sent_at=None, deaths=deaths)
            return
        report = replace(report, problem=as_problem(died(deaths)))
    written: dict[str, Any] = {} if is_done else {"counts": _counts(report)}
    if report.facts:
        # Otherwise those stay that the job has noted on its way.
        written["facts"] = dict(report.facts)
    ours.update(
        **written,
        state=BulkState.DONE if is_done else BulkState[report.state.name],
        problem=None if is_done or report.problem is None else list(report.problem),
        ended_at=database_now(),
        lease_until=None,
    )


def _counts(report: Report) -> dict[str, int]:
    """Of a job that did not write them itself; none of one that did nothing."""
    names = ("read", "sent", "rejected", "skipped")
    return {n: getattr(report, n) for n in names} if report.state is JobState.DONE else {}
