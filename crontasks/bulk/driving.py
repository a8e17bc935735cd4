"""Runs a stored run of a bulk job in this process's Spark session."""

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any, Final
from uuid import UUID

from django.db import DatabaseError, close_old_connections, connections
from django.db.models import Case, F, PositiveIntegerField, Q, When
from django.db.models.functions import Now

from crontasks.bulk import ending, pace, sending, sharing
from crontasks.bulk.sending import LEASE
from crontasks.bulk.sessions import session_settings
from crontasks.bulk.telling import arguments_of
from crontasks.cleanup.removing import database_time
from crontasks.running import outage
from integration.clock import database_now
from integration.documents.refusals import plain_text
from integration.errors import IntegrationError
from integration.models import BulkRun
from integration.policy.states import BulkState
from spark_jobs.contract import JobState, Progress, Report, Tell
from spark_jobs.problems import JobError, Stopped, lost
from spark_jobs.running import run as run_job
from spark_jobs.running import unforeseen
from spark_jobs.session import open_session

RENEWED_SECONDS: Final = 5.0
# Of a run's log so many lines are kept.
LOG_LINES: Final = 200
Heed = Callable[[], None]
"""Asked wherever a job may stop: raises Stopped, or what the driver stops it by."""
logger = logging.getLogger(__name__)


def _nobody() -> None:
    """Nobody but the run's row stops the job."""


class RowTell(Tell):
    """Tells by the run's row; an owner that lost it is told so, and undoes nothing."""

    def __init__(self, run: UUID, epoch: int, heed: Heed = _nobody) -> None:
        self._row = BulkRun.objects.filter(pk=run, epoch=epoch, state=BulkState.RUNNING)
        self._heed = heed
        self._told: dict[str, Any] = {}

    def progress(self, progress: Progress) -> None:
        self._told = pace.told(asdict(progress), self._told, database_time())
        self._row.update(progress=self._told)

    def planned(self, plan: Mapping[str, Any]) -> None:
        if not self._row.update(plan=dict(plan)):
            raise lost()

    def say(self, line: str) -> None:
        said = list(self._row.annotate(now=Now()).values_list("log", "now"))
        for log, now in said:
            lines = [*log.splitlines(), f"{now:%Y-%m-%d %H:%M:%S} {plain_text(line)}"]
            self._row.update(log="\n".join(lines[-LOG_LINES:]))

    def go_on(self) -> None:
        asked = self._row.values_list("cancel_asked_at", flat=True).first()
        if asked is not None:
            raise Stopped
        if not self._row.exists():
            raise lost()
        self._heed()

    def stay(self) -> None:
        """Renew the lease."""
        self._row.update(lease_until=database_now() + LEASE)


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
    if report.state is not JobState.DONE and ending.is_applied(row):
        # What is in the database is done, whatever was heard of its commit: the job tells it again.
        row.refresh_from_db()
        report = _driven(row, tell)
    ending.write(row, report, gives_back=gives_back)
    row.refresh_from_db()
    return row


def again(run: UUID, *, send: bool = True) -> bool:
    """Let a run that failed or was cancelled be driven again; it goes on where it stopped.

    With `send` by the Spark driver, else by the caller, who drives it at once.
    """
    ended = BulkRun.objects.filter(pk=run, state__in=[BulkState.FAILED, BulkState.CANCELLED])
    is_open = ended.update(
        state=BulkState.ASKED,
        cancel_asked_at=None,
        problem=None,
        ended_at=None,
        deaths=0,
        sent_at=None,
        lease_until=None if send else database_now() + LEASE,
    )
    if is_open and send:
        sending.after_commit(run)
    return bool(is_open)


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
    """What came of it, also where nobody foresaw it; raises only what ends the database."""
    try:
        with _staying(tell):
            return _run(row, tell)
    except Exception as e:
        if outage.is_of_database(e):
            raise  # The lease runs out, and the next driver goes on.
        logger.exception("a bulk run could not be driven", extra={"run": str(row.pk)})
        return _failed(row, unforeseen(e).told)


def _run(row: BulkRun, tell: RowTell) -> Report:
    try:
        sharing.prove(row)
        arguments = arguments_of(row)
        session = open_session(session_settings())
    except JobError as e:
        return _failed(row, e.told)
    except IntegrationError as e:
        return _failed(row, (e.code, e.sentence, e.next_step))
    return run_job(session, arguments, tell)


def _failed(row: BulkRun, problem: tuple[str, str, str]) -> Report:
    return Report(job=row.job, run=str(row.pk), state=JobState.FAILED, problem=problem)
