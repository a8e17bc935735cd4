"""A driver of bulk runs as a child process, to be killed at any step."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import psutil
import psycopg
from django.db import connection

from crontasks.bulk.driving import drive
from integration.models import BulkRun
from spark_jobs.staging import lock_number
from tests.support.bulk import SPARK_ENVIRONMENT
from tests.support.celery_world import Child
from tests.support.celery_world import eventually as within

# A busy machine takes its time, and what comes about is what is tested. Each look is work.
eventually = partial(within, seconds=200.0, every=0.05)
# The sessions that wait for one of ours, or behind one that does.
BEHIND: Final = """
WITH RECURSIVE line(pid, query) AS (
  SELECT %s::int, NULL::text
  UNION SELECT a.pid, a.query FROM line b JOIN pg_stat_activity a
    ON a.wait_event_type = 'Lock' AND b.pid = ANY(pg_blocking_pids(a.pid))
), behind AS (SELECT * FROM line WHERE query IS NOT NULL)
"""
LOCK_ROW: Final = "SELECT 1 FROM integration_bulkrun WHERE id = %s FOR UPDATE"
# Whoever holds the lock of an applied run holds up how it ended; most runs' locks are free.
END_OF_APPLIED: Final = 7_302_027
LOCK_END: Final = f"SELECT pg_advisory_xact_lock({END_OF_APPLIED}, hashtext(%s))"
STOPPING_ENDS: Final = f"""
CREATE FUNCTION a_stop_of_applied() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  PERFORM pg_advisory_xact_lock({END_OF_APPLIED}, hashtext(NEW.id::text));
  RETURN NEW;
END $$;
CREATE TRIGGER a_stop_of_applied BEFORE UPDATE ON integration_bulkrun FOR EACH ROW
  WHEN (OLD.applied AND NEW.state <> OLD.state) EXECUTE FUNCTION a_stop_of_applied()
"""


class Driver(Child):
    """A driver with all its processes."""

    def kill(self) -> None:
        """As a power cut would: its workers of Python, a group of their own, end with the JVM."""
        below: list[psutil.Process] = []
        with suppress(psutil.NoSuchProcess):
            below = psutil.Process(self.pid).children(recursive=True)
        super().kill()
        eventually(lambda: not any(map(_lives, below)), self)


class DriverOfMany(Driver):
    """One that drives each run that it is told of, all at once: see `bulk_child`."""

    program = ["-m", "tests.support.bulk_child"]

    def __init__(self, name: str, environment: dict[str, str], folder: Path, tasks: int) -> None:
        pipe = folder / f"{name}.runs"
        os.mkfifo(pipe)
        # Opened for reading, too, so that it opens before anybody reads.
        self._runs = os.fdopen(os.open(pipe, os.O_RDWR), "w")
        super().__init__(name, [str(pipe), str(tasks)], environment, folder)

    def drive(self, run: BulkRun) -> None:
        """Begin to drive it beside the others."""
        self._runs.write(f"{run.pk}\n")
        self._runs.flush()

    def end(self) -> None:
        super().end()
        self._runs.close()


Step = Callable[[BulkRun, DriverOfMany], AbstractContextManager[None]]
"""Lets the driver bring the run to a step and holds it there; once it was killed looks around."""


class Killed(NamedTuple):
    """The runs of a job, one for each step, and what each must come to when it was taken over."""

    runs: Mapping[Step, BulkRun]
    holds: Callable[[Step, BulkRun], None]


def _lives(process: psutil.Process) -> bool:
    """Whether it does anything; who has ended may wait for somebody who asks how."""
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def killed_at_their_steps(
    runs: Mapping[Step, BulkRun], environment: dict[str, str], folder: Path, *, tasks: int = 2
) -> None:
    """Let one driver bring each run to its step, kill it there, and let each step look around.

    Its Spark does so many tasks at a time; one that waits is done all the while.
    """
    with _triggered(STOPPING_ENDS, "a_stop_of_applied"), ExitStack() as held:
        driver = DriverOfMany("killed", {**environment, **SPARK_ENVIRONMENT}, folder, tasks)
        try:
            for step, run in runs.items():
                held.enter_context(step(run, driver))
        finally:
            # Before what it waits for is let go.
            driver.end()


@contextmanager
def a_session() -> Iterator[psycopg.Connection[Any]]:
    """A session of its own in one transaction; what it did is undone, what it locked is free."""
    where = connection.settings_dict
    with psycopg.connect(
        host=where["HOST"], port=where["PORT"], user=where["USER"], dbname=where["NAME"]
    ) as session:
        yield session
        session.rollback()


@contextmanager
def stopped(lock: int, stopping: str, function: str) -> Iterator[psycopg.Connection[Any]]:
    """A session for which all wait whom a trigger lets ask for that lock; both are gone then."""
    with a_session() as session:
        session.execute("SELECT pg_advisory_xact_lock(%s)", [lock])
        with _triggered(stopping, function):
            yield session


@contextmanager
def _triggered(creating: str, function: str) -> Iterator[None]:
    """With a function and its trigger. Both are made while nobody writes to the table."""
    with connection.cursor() as cursor:
        cursor.execute(creating)
    try:
        yield
    finally:
        # Those who wait are dead by now, and the server notices within half a second.
        with connection.cursor() as cursor:
            cursor.execute(f"DROP FUNCTION {function} CASCADE")


def hold(session: psycopg.Connection[Any], run: BulkRun, number: int) -> None:
    """Keep a part of the run to this session: whoever is about to stage it waits."""
    session.execute("SELECT pg_advisory_xact_lock(%s)", [lock_number(str(run.pk), number)])


def waits(session: psycopg.Connection[Any], words: str = "") -> bool:
    """Whether somebody waits for what this session has or wants, in a statement with these words.

    Whoever waits behind somebody who does counts as well.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            f"{BEHIND} SELECT EXISTS (SELECT FROM behind WHERE position(%s IN query) > 0)",
            [session.info.backend_pid, words],
        )
        return bool(cursor.fetchone()[0])


def rows_in(run: BulkRun, table: str) -> int:
    """How many rows a table of the run's own has; nought where it is not there."""
    name = f"bulk_{run.pk.hex}_{table}"
    with connection.cursor() as cursor:
        cursor.execute("SELECT to_regclass(%s) IS NOT NULL", [name])
        if not cursor.fetchone()[0]:
            return 0
        cursor.execute(f"SELECT count(*) FROM {name}")
        return int(cursor.fetchone()[0])


@contextmanager
def applied_and_not_ended(
    run: BulkRun, driver: Child, in_its_commit: psycopg.Connection[Any]
) -> Iterator[None]:
    """From its last commit, in which it waits for that session, to where all of it is applied.

    How it ended cannot be written.
    """
    with a_session() as held:
        held.execute(LOCK_END, [str(run.pk)])
        in_its_commit.rollback()
        eventually(lambda: waits(held), driver)
        yield
        end_who_waits(held)
        run.refresh_from_db()
        assert (run.applied, run.state) == (True, "RUNNING")


def end_who_waits(session: psycopg.Connection[Any]) -> None:
    """End the sessions of the dead that wait for this one.

    Else the server would do what they asked for last as soon as it can.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            f"{BEHIND} SELECT pg_terminate_backend(pid) FROM behind",
            [session.info.backend_pid],
        )
    eventually(lambda: not waits(session))


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
