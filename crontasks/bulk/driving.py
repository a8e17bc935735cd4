"""Runs a stored run of a bulk job in this process's Spark session."""

from collections.abc import Mapping
from dataclasses import asdict
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from django.conf import settings
from django.db import close_old_connections
from django.db.models import F, Q
from psycopg.conninfo import make_conninfo

from integration.clock import database_now
from integration.models import BulkRun, BulkState
from integration.store.sessions import django_connection
from spark_jobs.contract import Arguments, JobState, Progress, Report, Tell
from spark_jobs.problems import JobError
from spark_jobs.running import run as run_job
from spark_jobs.session import SessionSettings, open_session

# Renewed about twice a second; a driver that is silent for longer is taken for dead.
LEASE: Final = timedelta(seconds=30)
ENDS: Final = {
    JobState.DONE: BulkState.DONE,
    JobState.FAILED: BulkState.FAILED,
    JobState.CANCELLED: BulkState.CANCELLED,
}


class RowTell(Tell):
    """Tells by the run's row, and keeps its lease; an owner that lost it is told to stop."""

    def __init__(self, run: UUID, epoch: int) -> None:
        self._row = BulkRun.objects.filter(pk=run, epoch=epoch, state=BulkState.RUNNING)

    def progress(self, progress: Progress) -> None:
        self._row.update(progress=asdict(progress), lease_until=database_now() + LEASE)

    def planned(self, plan: Mapping[str, Any]) -> None:
        self._row.update(plan=dict(plan))

    def should_stop(self) -> bool:
        return not self._row.filter(cancel_asked_at=None).exists()


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
    ended.update(
        state=ENDS[report.state],
        problem=None if report.problem is None else list(report.problem),
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
        session = open_session(wanted)
    except JobError as e:
        return Report(job=row.job, run=str(row.pk), state=JobState.FAILED, problem=e.told)
    arguments = Arguments(
        job=row.job,
        run=str(row.pk),
        parameters=row.parameters,
        database=_conninfo(),
        plan=row.plan,
    )
    return run_job(session, arguments, RowTell(row.pk, row.epoch))


def _conninfo() -> str:
    """The database as libpq is told of it."""
    where = django_connection().settings_dict
    return make_conninfo(
        dbname=where["NAME"],
        user=where["USER"] or None,
        password=where["PASSWORD"] or None,
        host=where["HOST"] or None,
        port=where["PORT"] or None,
    )
