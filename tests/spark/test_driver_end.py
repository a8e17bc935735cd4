"""A Spark driver that is told to end, and one without memory: their runs are there for the next."""

import signal
from pathlib import Path
from typing import Any

import pytest

from crontasks.bulk.deciding import again
from integration.models import BulkRun, Queue
from tests.support.builders import a_queue
from tests.support.bulk import an_asset_structure, an_import, driven, shared_session, storing
from tests.support.kafka_world import Kafka
from tests.support.spark_driver import (
    LAST,
    a_spark_driver,
    all_of_it_is_there,
    dispatched,
    ended,
    eventually,
    now,
    some_files,
    staged,
    the_last_range_held,
)

pytestmark = [
    pytest.mark.servers,
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(500),
]


@pytest.fixture(scope="module", autouse=True)
def spark() -> Any:
    """For the driver that goes on, here."""
    return shared_session()


@pytest.fixture
def queue(servers: Any) -> Queue:
    return storing(a_queue(Kafka(servers.kafka_bootstrap)), an_asset_structure())


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return some_files(tmp_path / "assets")


def test_a_driver_told_to_end_gives_its_run_back_and_the_next_goes_on(
    queue: Queue, source: Path, child_environment: dict[str, str], tmp_path: Path
) -> None:
    driver = a_spark_driver("told", child_environment, tmp_path)
    run = an_import(source, queue)
    try:
        with the_last_range_held(run):
            BulkRun.objects.update(lease_until=None)
            dispatched()
            eventually(lambda: staged(run) == LAST, driver)
            jvm = driver.jvm()
            driver.process.send_signal(signal.SIGTERM)
            assert driver.process.wait(100) == 0
        jvm.wait(30)
    finally:
        driver.end()

    left = now(run)
    assert (left.state, left.owner, left.lease_until) == ("ASKED", "", None)
    assert (left.deaths, left.problem, staged(run)) == (0, None, LAST)
    all_of_it_is_there(driven(run))


def test_too_little_memory_is_told_to_each_run_and_the_driver_lives(
    queue: Queue, source: Path, child_environment: dict[str, str], tmp_path: Path
) -> None:
    short = a_spark_driver("short", child_environment, tmp_path, memory_mb=90_000_000)
    run = an_import(source, queue, send=True)
    try:
        refused = ended(run, short)
        assert (refused.state, refused.problem[0]) == ("FAILED", "SPARK_MEMORY")
        assert short.process.poll() is None
    finally:
        short.end()

    assert again(run.pk, send=False)
    all_of_it_is_there(driven(run))
