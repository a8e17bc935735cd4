"""Runs a stored run of a bulk job in this process's Spark session."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from django.conf import settings
from django.db import DatabaseError, close_old_connections, connections
from django.db.models import F, Q
from django.db.models.functions import Now

from crontasks.bulk.telling import arguments_of
from integration.clock import database_now
from integration.documents.refusals import plain_text
from integration.errors import IntegrationError
from integration.models import BulkRun, BulkState
from spark_jobs.contract import JobState, Progress, Report, Tell
from spark_jobs.problems import JobError, Stopped, lost
from spark_jobs.running import run as run_job
from spark_jobs.session import SessionSettings, open_session

# A driver that is silent for longer is taken for dead.
LEASE: Final = timedelta(seconds=30)
RENEWED_SECONDS: Final = 5.0
# Of a run's log so many lines are kept.
LOG_LINES: Final = 200
ENDS: Final = {
    JobState.DONE: BulkState.DONE,
    JobState.FAILED: BulkState.FAILED,
    JobState.CANCELLED: BulkState.CANCELLED,
}


class RowTell(Tell):
    """Tells by the run's row; an owner that lost it is told so, and undoes nothing."""

    def __init__(self, run: UUID, epoch: int) -> None:
        self._row = BulkRun.objects.filter(pk=run, epoch=epoch, state=BulkState.RUNNING)

    def progress(self, progress: Progress) -> None:
        self._row.update(progress=asdict(progress))

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


def drive(run: UUID, *, owner: str) -> BulkRun | None:
    """Run it to its end and write down what came of it; None when it is not ours to run.

    Two that drive one run: the second finds it taken. One whose driver died is taken over when
    its lease has run out, with its plan, and goes on where that one stopped.
    """
    free = Q(state=BulkState.ASKED) | Q(state=BulkState.RUNNING, lease_until__lt=database_now())
    taken = BulkRun.objects.filter(free, pk=run).update(
        state=BulkState.RUNNING,
        owner=owner[:200],
        epoch=F("epoch") + 1,
        lease_until=database_now() + LEASE,
        started_at=database_now(),
    )
    if not taken:
        return None
    row = BulkRun.objects.get(pk=run)
    report = _run(row)
    close_old_connections()
    ended = BulkRun.objects.filter(pk=run, epoch=row.epoch, state=BulkState.RUNNING)
    # What is in the database is done, whatever was heard of its commit.
    is_done = ended.filter(applied=True).exists()
    if not is_done:
        ended.update(counts=_counts(report))
    ended.update(
        state=BulkState.DONE if is_done else ENDS[report.state],
        problem=None if is_done or report.problem is None else list(report.problem),
        facts=dict(report.facts),
        ended_at=database_now(),
        lease_until=None,
    )
    row.refresh_from_db()
    return row


def again(run: UUID) -> bool:
    """Let a run that failed or was cancelled be driven again; it goes on where it stopped."""
    ended = BulkRun.objects.filter(pk=run, state__in=[BulkState.FAILED, BulkState.CANCELLED])
    return bool(ended.update(state=BulkState.ASKED, cancel_asked_at=None, problem=None))


def _run(row: BulkRun) -> Report:
    wanted = SessionSettings(
        master=settings.SLUICE_SPARK_MASTER, memory_mb=settings.SLUICE_SPARK_MEMORY_MB
    )
    try:
        arguments = arguments_of(row)
        session = open_session(wanted)
    except JobError as e:
        return _failed(row, e.told)
    except IntegrationError as e:
        return _failed(row, (e.code, e.sentence, e.next_step))
    tell = RowTell(row.pk, row.epoch)
    with _staying(tell):
        return run_job(session, arguments, tell)


def _counts(report: Report) -> dict[str, int]:
    """Of a job that did not write them itself; none of one that did nothing."""
    names = ("read", "sent", "rejected", "skipped")
    return {n: getattr(report, n) for n in names} if report.state is JobState.DONE else {}


def _failed(row: BulkRun, problem: tuple[str, str, str]) -> Report:
    return Report(job=row.job, run=str(row.pk), state=JobState.FAILED, problem=problem)
