"""The Spark driver as a child process of a test, and what runs under it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import psutil
import psycopg
from django.db import connection

from crontasks.bulk import sending
from crontasks.models import Heartbeat
from integration.models import BulkRun, MessageError, StoredObject
from integration.store.sessions import django_connection
from tests.support.bulk import SPARK, SPARK_ENVIRONMENT, a_csv
from tests.support.celery_world import Child
from tests.support.run_driver import Driver, a_session, eventually, hold, rows_in

ENDED = frozenset({"DONE", "FAILED", "CANCELLED"})
FILES, ROWS, BAD = 4, 200, 10
LAST: Final = FILES - 1


class SparkDriver(Driver):
    """`manage.py run_spark_driver`, with the JVM below it."""

    program = ["manage.py", "run_spark_driver"]

    def jvm(self) -> psutil.Process:
        """Its JVM; there is one as soon as its heart beats, unless Spark was refused."""
        found = [one for one in psutil.Process(self.pid).children() if one.name() == "java"]
        assert len(found) == 1, found
        return found[0]

    def is_beating(self) -> bool:
        return Heartbeat.objects.filter(pid=self.pid, queues="spark").exists()


def a_spark_driver(
    name: str, environment: dict[str, str], folder: Path, *, memory_mb: int = SPARK.memory_mb
) -> SparkDriver:
    """One that takes runs from now on."""
    spark = {**SPARK_ENVIRONMENT, "SLUICE_SPARK_MEMORY_MB": str(memory_mb)}
    started = SparkDriver(name, [], {**environment, **spark}, folder)
    eventually(started.is_beating, started)
    return started


class Drivers:
    """One driver for all tests of a module, started anew where a test has ended it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.started: list[SparkDriver] = []

    def living(self, environment: dict[str, str]) -> SparkDriver:
        if not (self.started and self.started[-1].process.poll() is None):
            name = f"driver-{len(self.started)}"
            self.started.append(a_spark_driver(name, environment, self.folder))
        # Between two tests the tables are emptied; its heart beats every two seconds.
        eventually(self.started[-1].is_beating, self.started[-1])
        return self.started[-1]

    def end(self) -> None:
        for one in self.started:
            one.end()


def now(run: BulkRun) -> BulkRun:
    return BulkRun.objects.get(pk=run.pk)


def dispatched() -> None:
    """One look of a dispatcher, which no driver has of its own."""
    with django_connection().cursor() as cursor:
        sending.look(cursor)


def ended(run: BulkRun, driver: Child) -> BulkRun:
    """The run when it has ended, a dispatcher looking after it meanwhile."""

    def look() -> BulkRun | None:
        dispatched()
        found = now(run)
        return found if found.state in ENDED else None

    # Each look is work, of which the driver has enough.
    found = eventually(look, driver, every=0.1)
    assert found is not None
    return found


def some_files(folder: Path) -> Path:
    """Files of assets, each of them a range of an import."""
    folder.mkdir()
    for number in range(FILES):
        a_csv(folder / f"{number}.csv", ROWS, bad=BAD, first=number * ROWS)
    return folder


@contextmanager
def the_last_range_held(run: BulkRun) -> Iterator[psycopg.Connection[Any]]:
    """Its task waits for this session; the other ranges are staged meanwhile."""
    with a_session() as session:
        hold(session, run, LAST)
        yield session


def all_of_it_is_there(run: BulkRun) -> None:
    """The import of all files, each row once."""
    good = FILES * (ROWS - BAD)
    assert (run.state, run.problem) == ("DONE", None)
    assert run.counts == {"read": FILES * ROWS, "sent": good, "rejected": FILES * BAD, "skipped": 0}
    assert StoredObject.objects.filter(version=1).count() == good == StoredObject.objects.count()
    assert MessageError.objects.count() == FILES * BAD


def staged(run: BulkRun) -> int:
    """How many ranges of an import are staged."""
    return rows_in(run, "ranges")


def tasks_at_work() -> int:
    """Sessions of the database that tasks of an import have open."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'sluice import'"
        )
        return int(cursor.fetchone()[0])
