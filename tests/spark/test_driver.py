"""The Spark driver as it is shipped: warm between runs, and what becomes of a run when one dies."""

import json
from pathlib import Path
from typing import Any

import pytest

from crontasks.bulk.deciding import again, cancel
from integration.models import BulkRun, Queue, StoredObject
from tests.support.builders import a_queue
from tests.support.bulk import a_csv, an_asset_structure, an_import, stages, storing
from tests.support.kafka_world import Kafka
from tests.support.run_driver import a_driver, let_the_lease_end
from tests.support.spark_driver import (
    LAST,
    Drivers,
    SparkDriver,
    all_of_it_is_there,
    dispatched,
    ended,
    eventually,
    now,
    some_files,
    staged,
    tasks_at_work,
    the_last_range_held,
)

pytestmark = [
    pytest.mark.servers,
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(500),
]


@pytest.fixture
def queue(servers: Any) -> Queue:
    return storing(a_queue(Kafka(servers.kafka_bootstrap)), an_asset_structure())


@pytest.fixture
def driver(drivers: Drivers, queue: Queue, child_environment: dict[str, str]) -> SparkDriver:
    return drivers.living(child_environment)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return some_files(tmp_path / "assets")


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


def test_a_run_whose_driver_was_killed_is_taken_over(
    driver: SparkDriver,
    queue: Queue,
    source: Path,
    child_environment: dict[str, str],
    tmp_path: Path,
) -> None:
    run = an_import(source, queue)
    with (
        the_last_range_held(run),
        a_driver("killed", run, child_environment, tmp_path) as another,
    ):
        eventually(lambda: staged(run) == LAST, another)
        another.kill()
    let_the_lease_end(run)

    done = ended(run, driver)

    all_of_it_is_there(done)
    assert (done.deaths, stages(run)) == (1, [])
    assert "Taken over" in done.log


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


def _host(driver: SparkDriver) -> str:
    """As the log's first lines have it."""
    said = [json.loads(line) for line in driver.text().splitlines() if line.startswith("{")]
    ready = next(one["message"] for one in said if one["message"].endswith(" ready."))
    return str(ready.removesuffix(" ready.").removeprefix("spark@"))
