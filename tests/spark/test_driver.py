"""The Spark driver as it is shipped: warm between runs, and what becomes of a run when it ends."""

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest
from django.db import connection

from crontasks.bulk.deciding import again, cancel
from integration.models import BulkRun, MessageError, Queue, StoredObject
from spark_jobs.staging import lock_number
from tests.support.builders import a_queue
from tests.support.bulk import a_csv, an_asset_structure, an_import, storing
from tests.support.kafka_world import Kafka
from tests.support.spark_driver import (
    Drivers,
    SparkDriver,
    a_spark_driver,
    dispatched,
    ended,
    eventually,
    now,
    staged,
    tasks_at_work,
)

pytestmark = [
    pytest.mark.servers,
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(500),
]
FILES, ROWS, BAD = 4, 1_000, 10
LAST: Final = FILES - 1


@pytest.fixture
def queue(servers: Any) -> Queue:
    return storing(a_queue(Kafka(servers.kafka_bootstrap)), an_asset_structure())


@pytest.fixture
def driver(drivers: Drivers, queue: Queue, child_environment: dict[str, str]) -> SparkDriver:
    return drivers.living(child_environment)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Four files, each a range."""
    folder = tmp_path / "assets"
    folder.mkdir()
    for number in range(FILES):
        a_csv(folder / f"{number}.csv", ROWS, bad=BAD, first=number * ROWS)
    return folder


@contextmanager
def the_last_range_held(run: BulkRun) -> Iterator[None]:
    """Its task waits for us; the other ranges are staged meanwhile."""
    where = connection.settings_dict
    with psycopg.connect(
        host=where["HOST"], port=where["PORT"], user=where["USER"], dbname=where["NAME"]
    ) as session:
        session.execute("SELECT pg_advisory_xact_lock(%s)", [lock_number(str(run.pk), LAST)])
        yield
        session.rollback()


def all_of_it_is_there(run: BulkRun) -> None:
    good = FILES * (ROWS - BAD)
    assert (run.state, run.problem) == ("DONE", None)
    assert run.counts == {"read": FILES * ROWS, "sent": good, "rejected": FILES * BAD, "skipped": 0}
    assert StoredObject.objects.filter(version=1).count() == good == StoredObject.objects.count()
    assert MessageError.objects.count() == FILES * BAD


def test_one_session_serves_run_after_run_and_a_dead_one_is_replaced(
    driver: SparkDriver, queue: Queue, source: Path, tmp_path: Path
) -> None:
    warm = driver.jvm()

    all_of_it_is_there(ended(an_import(source, queue, send=True), driver))
    a_csv(tmp_path / "more.csv", 10, first=90_000)
    second = ended(an_import(tmp_path / "more.csv", queue, send=True), driver)

    assert (second.state, second.counts["sent"], second.deaths) == ("DONE", 10, 0)
    assert driver.jvm() == warm, "the session outlives its runs"
    assert second.owner == f"spark@{_host(driver)}:{driver.pid}"

    warm.kill()
    warm.wait(10)
    third = ended(an_import(tmp_path / "more.csv", queue, send=True), driver)

    assert (third.state, third.counts["read"], third.deaths) == ("DONE", 10, 0)
    assert driver.jvm() != warm


def test_a_jvm_killed_under_a_run_costs_a_try_and_no_row(
    driver: SparkDriver, queue: Queue, source: Path
) -> None:
    run = an_import(source, queue)
    with the_last_range_held(run):
        BulkRun.objects.update(lease_until=None)
        dispatched()
        eventually(lambda: staged(run) == LAST, driver)
        driver.jvm().kill()
        eventually(lambda: now(run).deaths == 1, driver)

    done = ended(run, driver)

    all_of_it_is_there(done)
    assert done.deaths == 1
    assert "Taken over" in done.log


def test_a_driver_told_to_end_gives_its_run_back_and_the_next_goes_on(
    driver: SparkDriver,
    drivers: Drivers,
    queue: Queue,
    source: Path,
    child_environment: dict[str, str],
) -> None:
    run = an_import(source, queue)
    with the_last_range_held(run):
        BulkRun.objects.update(lease_until=None)
        dispatched()
        eventually(lambda: staged(run) == LAST, driver)
        jvm = driver.jvm()
        driver.process.send_signal(signal.SIGTERM)
        assert driver.process.wait(100) == 0
    jvm.wait(30)

    left = now(run)
    assert (left.state, left.owner, left.lease_until) == ("ASKED", "", None)
    assert (left.deaths, left.problem, staged(run)) == (0, None, LAST)
    all_of_it_is_there(ended(run, drivers.living(child_environment)))


def test_cancel_ends_the_tasks_and_what_they_staged(
    driver: SparkDriver, queue: Queue, source: Path
) -> None:
    run = an_import(source, queue)
    with the_last_range_held(run):
        BulkRun.objects.update(lease_until=None)
        dispatched()
        eventually(lambda: staged(run) == LAST and tasks_at_work() == 1, driver)
        assert cancel(run.pk)
        done = ended(run, driver)
        # We still hold what the task waits for: it was ended, it did not come through.
        eventually(lambda: tasks_at_work() == 0, driver)

    assert (done.state, done.counts, staged(run)) == ("CANCELLED", {}, 0)
    assert StoredObject.objects.count() == 0
    assert again(run.pk)
    all_of_it_is_there(ended(run, driver))


def test_too_little_memory_is_told_to_each_run_and_the_driver_lives(
    drivers: Drivers,
    queue: Queue,
    source: Path,
    child_environment: dict[str, str],
    tmp_path: Path,
) -> None:
    drivers.end()
    short = a_spark_driver("short", child_environment, tmp_path, memory_mb=90_000_000)
    run = an_import(source, queue, send=True)
    try:
        refused = ended(run, short)
        assert (refused.state, refused.problem[0]) == ("FAILED", "SPARK_MEMORY")
        assert short.process.poll() is None
    finally:
        short.end()

    assert again(run.pk)
    all_of_it_is_there(ended(run, drivers.living(child_environment)))


def _host(driver: SparkDriver) -> str:
    """As the log's first lines have it."""
    said = [json.loads(line) for line in driver.text().splitlines() if line.startswith("{")]
    ready = next(one["message"] for one in said if one["message"].endswith(" ready."))
    return str(ready.removesuffix(" ready.").removeprefix("spark@"))
