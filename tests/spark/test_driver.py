"""The Spark driver as it is shipped: it takes what is asked for, is warm between runs, and ends.

And what becomes of a run when a driver or its JVM dies.
"""

import json
import signal
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

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
from tests.support.bulk_pages import logged_in, new
from tests.support.every_job import (
    CASES,
    Asked,
    World,
    ask_by_schedule,
    import_into_a_structure,
)
from tests.support.exports import a_plain_queue
from tests.support.run_driver import end_who_waits, let_the_lease_end
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
each_job = pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)


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


@each_job
def test_it_is_asked_for_in_the_console(
    driver: SparkDriver, world: World, case: Callable[[World], Asked]
) -> None:
    asked = case(world)
    job_request = {"job_request": json.dumps(asked.job_request), "reason": "agreed"}
    answer = new(logged_in("Editors"), asked.job, {"ask": "1", "run": str(uuid4()), **job_request})
    assert answer.status_code == 303, answer.text
    done(asked, driver)


def test_it_is_asked_for_by_schedule(driver: SparkDriver, world: World) -> None:
    """One of them: what a schedule asks for is in `test_every_way`."""
    asked = import_into_a_structure(world)
    instance = ask_by_schedule(asked)
    assert done(asked, driver).instance == instance.pk


def done(asked: Asked, driver: SparkDriver) -> BulkRun:
    """The one run, driven to the last row."""
    run = ended(BulkRun.objects.get(), driver)
    assert (run.state, run.problem) == ("DONE", None)
    asked.holds(run)
    return run


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

    over = ended(run, driver)

    all_of_it_is_there(over)
    assert over.deaths == 1
    assert "Taken over" in over.log


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
def test_a_killed_drivers_run_is_taken_over_and_given_back_by_one_that_is_told_to_end(
    driver: SparkDriver,
    drivers: Drivers,
    queue: Queue,
    source: Path,
    child_environment: dict[str, str],
) -> None:
    run = an_import(source, queue)
    with the_last_range_held(run) as held:
        BulkRun.objects.update(lease_until=None)
        dispatched()
        eventually(lambda: staged(run) == LAST, driver)
        driver.kill()
        end_who_waits(held)
        let_the_lease_end(run)
        following = drivers.living(child_environment)
        eventually(lambda: _is_taken(run, following) and tasks_at_work() == 1, following)
        jvm = following.jvm()
        following.process.send_signal(signal.SIGTERM)
        assert following.process.wait(100) == 0
    jvm.wait(30)

    left = now(run)
    assert (left.state, left.owner, left.lease_until) == ("ASKED", "", None)
    # One died; that the other one ended is no death.
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
