"""The Spark driver as it is shipped: it takes what is asked for, is warm between runs, and ends.

And what becomes of a run when its JVM dies, or it is told to end. Each job to its last row, and
that it is the same one however it was asked for, is in `test_every_way`; what becomes of the runs
of a driver that is killed is in `test_killed_drivers`, and in `functional/test_bulk_sending` who
gets them.
"""

import json
import signal
from pathlib import Path

import pytest

from crontasks.bulk.deciding import again, cancel
from integration.models import BulkRun, Queue, StoredObject
from tests.support.bulk import (
    a_csv,
    an_asset_structure,
    an_import,
    driven,
    shared_session,
    stages,
)
from tests.support.every_job import (
    Asked,
    World,
    ask_by_schedule,
    asked_in_the_console,
    export_into_a_queue,
    import_into_a_structure,
)
from tests.support.exports import a_plain_queue
from tests.support.run_driver import end_who_waits
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
    pytest.mark.usefixtures("valkey"),
    pytest.mark.timeout(500),
]


@pytest.fixture
def queue() -> Queue:
    """For rejects."""
    an_asset_structure()
    return a_plain_queue("rejects")


@pytest.fixture
def driver(drivers: Drivers, child_environment: dict[str, str]) -> SparkDriver:
    return drivers.living(child_environment)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return some_files(tmp_path / "assets")


def test_it_is_asked_for_in_the_console(driver: SparkDriver, world: World) -> None:
    asked = export_into_a_queue(world)
    asked_in_the_console(asked)
    done(asked, driver)


def test_it_is_asked_for_by_schedule(driver: SparkDriver, world: World) -> None:
    asked = import_into_a_structure(world)
    instance = ask_by_schedule(asked)
    assert done(asked, driver).instance == instance.pk


def done(asked: Asked, driver: SparkDriver) -> BulkRun:
    """The one run, driven to the last row."""
    run = ended(BulkRun.objects.get(), driver)
    assert (run.state, run.problem) == ("DONE", None)
    asked.holds(run)
    return run


def test_one_session_serves_run_after_run(
    driver: SparkDriver, queue: Queue, source: Path, tmp_path: Path
) -> None:
    warm = driver.jvm()

    all_of_it_is_there(ended(an_import(source, queue, send=True), driver))
    a_csv(tmp_path / "more.csv", 10, first=90_000)
    second = ended(an_import(tmp_path / "more.csv", queue, send=True), driver)

    assert (second.state, second.counts["sent"], second.deaths) == ("DONE", 10, 0)
    assert driver.jvm() == warm, "the session outlives its runs"
    assert second.owner == f"spark@{_host(driver)}:{driver.pid}"


def test_cancel_ends_the_tasks_and_what_they_staged(
    driver: SparkDriver, queue: Queue, source: Path
) -> None:
    run = an_import(source, queue)
    with the_last_range_held(run):
        BulkRun.objects.update(lease_until=None)
        dispatched()
        eventually(lambda: staged(run) == LAST and tasks_at_work() == 1, driver)
        assert cancel(run.pk)
        cancelled = ended(run, driver)
        # We still hold what the task waits for: it was ended, it did not come through.
        eventually(lambda: tasks_at_work() == 0, driver)

    assert (cancelled.state, cancelled.counts, staged(run)) == ("CANCELLED", {}, 0)
    assert StoredObject.objects.count() == 0
    assert again(run.pk)
    all_of_it_is_there(ended(run, driver))


@pytest.mark.last
def test_a_dead_jvm_is_replaced_under_its_run_and_a_driver_that_is_told_to_end_gives_it_back(
    driver: SparkDriver, queue: Queue, source: Path
) -> None:
    run = an_import(source, queue)
    with the_last_range_held(run) as held:
        BulkRun.objects.update(lease_until=None)
        dispatched()
        eventually(lambda: staged(run) == LAST, driver)
        dies = driver.jvm()
        dies.kill()
        eventually(lambda: now(run).deaths == 1, driver)
        end_who_waits(held)
        eventually(lambda: _is_taken(run, driver) and tasks_at_work() == 1, driver)
        jvm = driver.jvm()
        assert jvm != dies
        driver.process.send_signal(signal.SIGTERM)
        assert driver.process.wait(100) == 0
    jvm.wait(30)

    left = now(run)
    assert (left.state, left.owner, left.lease_until) == ("ASKED", "", None)
    # The JVM died; that the driver ended is no death.
    assert (left.deaths, left.problem, staged(run)) == (1, None, LAST)
    assert "Taken over" in left.log
    shared_session()
    all_of_it_is_there(driven(run))
    assert (now(run).deaths, stages(run)) == (1, [])


def _is_taken(run: BulkRun, driver: SparkDriver) -> bool:
    dispatched()
    return now(run).owner.endswith(f":{driver.pid}")


def _host(driver: SparkDriver) -> str:
    """As the log's first lines have it."""
    said = [json.loads(line) for line in driver.text().splitlines() if line.startswith("{")]
    ready = next(one["message"] for one in said if one["message"].endswith(" ready."))
    return str(ready.removesuffix(" ready.").removeprefix("spark@"))
