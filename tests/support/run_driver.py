"""A driver of one bulk run as a child process, to be killed at any step."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import psycopg
from django.db import connection

from crontasks.bulk.driving import drive
from integration.models import BulkRun
from tests.support.bulk import SPARK_ENVIRONMENT
from tests.support.celery_world import Child, eventually


class Driver(Child):
    """`manage.py bulk_run` with all its processes."""

    program = ["manage.py", "bulk_run"]

    def kill(self) -> None:
        """As a power cut would: its workers of Python, a group of their own, end with the JVM."""
        below: list[psutil.Process] = []
        with suppress(psutil.NoSuchProcess):
            below = psutil.Process(self.pid).children(recursive=True)
        super().kill()
        eventually(lambda: not any(map(_lives, below)), self)


def _lives(process: psutil.Process) -> bool:
    """Whether it does anything; who has ended may wait for somebody who asks how."""
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@contextmanager
def a_driver(name: str, run: BulkRun, environment: dict[str, str], folder: Path) -> Iterator[Child]:
    started = Driver(name, [str(run.pk)], {**environment, **SPARK_ENVIRONMENT}, folder)
    try:
        yield started
    finally:
        started.end()


@contextmanager
def a_session() -> Iterator[psycopg.Connection[Any]]:
    """A session of its own in one transaction; what it did is undone, what it locked is free."""
    where = connection.settings_dict
    with psycopg.connect(
        host=where["HOST"], port=where["PORT"], user=where["USER"], dbname=where["NAME"]
    ) as session:
        yield session
        session.rollback()


def let_the_lease_end(run: BulkRun) -> None:
    """What takes thirty seconds otherwise, of a driver that was killed.

    The server still does what was asked of it by the dead: a renewal that waits for its row.
    """
    eventually(lambda: not _is_renewed())
    BulkRun.objects.filter(pk=run.pk).update(lease_until="2000-01-01T00:00Z")


def taken_over(run: BulkRun) -> BulkRun:
    """Go on here with what the driver that was killed had begun, unless it had ended it."""
    let_the_lease_end(run)
    drive(run.pk, owner="the next driver")
    run.refresh_from_db()
    return run


def _is_renewed() -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() "
            "AND pid <> pg_backend_pid() AND state <> 'idle' "
            "AND starts_with(query, 'UPDATE \"integration_bulkrun\"'))"
        )
        return bool(cursor.fetchone()[0])
