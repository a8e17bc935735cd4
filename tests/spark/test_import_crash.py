"""A driver is killed at every step of an import: the next one ends it with the exact rows.

How the Spark driver takes over when some of it is staged is in `test_driver`.
"""

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest
from django.db import connection

from integration.models import BulkRun, MessageError, Queue, StoredObject
from spark_jobs.staging import lock_number
from tests.support.builders import a_queue
from tests.support.bulk import (
    a_csv,
    an_asset_structure,
    an_import,
    shared_session,
    storing,
)
from tests.support.celery_world import Child
from tests.support.kafka_world import Kafka
from tests.support.run_driver import a_driver, a_session, taken_over
from tests.support.spark_driver import eventually, now, staged

pytestmark = [
    pytest.mark.servers,
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(500),
]
FILES, ROWS, BAD = 4, 1_000, 10
LAST: Final = FILES - 1

Killing = Callable[[BulkRun, psycopg.Connection[Any], Child], None]


def when_planned(run: BulkRun, _session: psycopg.Connection[Any], driver: Child) -> None:
    eventually(lambda: now(run).plan, driver)
    driver.kill()


def when_all_is_staged(run: BulkRun, session: psycopg.Connection[Any], driver: Child) -> None:
    # The last range waits until the run's row is held: otherwise all could be over by then.
    last = [lock_number(str(run.pk), LAST)]
    session.execute("SELECT pg_advisory_lock(%s)", last)
    eventually(lambda: staged(run) == LAST, driver)
    session.execute("SELECT 1 FROM integration_bulkrun WHERE id = %s FOR UPDATE", [run.pk])
    session.execute("SELECT pg_advisory_unlock(%s)", last)
    eventually(lambda: staged(run) == FILES, driver)
    driver.kill()


def in_the_commit(_run: BulkRun, session: psycopg.Connection[Any], driver: Child) -> None:
    session.execute(
        "INSERT INTO integration_storedobject (structure_id, key, xml, version, arrival_batch, "
        "arrival_index, message_id, topic_uuid, updated_at) SELECT id, %s, '', 1, 0, 0, '', '', "
        "now() FROM integration_objectstructure",
        ['["A-1","BEDFORD"]'],
    )
    eventually(_is_storing, driver)
    driver.kill()


def when_applied(run: BulkRun, _session: psycopg.Connection[Any], driver: Child) -> None:
    eventually(lambda: now(run).applied, driver)
    driver.kill()


def _is_storing() -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' "
            "AND query LIKE '%%INSERT INTO integration_storedobject AS o%%')"
        )
        return bool(cursor.fetchone()[0])


@pytest.fixture(scope="module", autouse=True)
def spark() -> Any:
    """For the drivers that go on; those that are killed have one of their own."""
    return shared_session()


@pytest.fixture
def queue(servers: Any) -> Queue:
    return storing(a_queue(Kafka(servers.kafka_bootstrap)), an_asset_structure())


@pytest.mark.parametrize(
    "kill",
    [when_planned, when_all_is_staged, in_the_commit, when_applied],
)
def test_a_killed_driver_costs_nothing(
    kill: Killing,
    queue: Queue,
    child_environment: dict[str, str],
    tmp_path: Path,
) -> None:
    source = tmp_path / "assets"
    source.mkdir()
    for number in range(FILES):
        a_csv(source / f"{number}.csv", ROWS, bad=BAD, first=number * ROWS)
    run = an_import(source, queue)
    with a_session() as session, a_driver("killed", run, child_environment, tmp_path) as driver:
        kill(run, session, driver)

    last = taken_over(run)

    assert (last.state, last.problem) == ("DONE", None)
    good = FILES * (ROWS - BAD)
    counts = {"read": FILES * ROWS, "sent": good, "rejected": FILES * BAD, "skipped": 0}
    assert last.counts == counts
    assert StoredObject.objects.filter(version=1).count() == good == StoredObject.objects.count()
    assert MessageError.objects.count() == FILES * BAD
    with connection.cursor() as cursor:
        cursor.execute("SELECT to_regclass(%s)", [f"bulk_{run.pk.hex}_ranges"])
        assert cursor.fetchone() == (None,)


def test_ctrl_c_cancels_the_run_and_says_how_to_go_on(
    queue: Queue, child_environment: dict[str, str], tmp_path: Path
) -> None:
    source = tmp_path / "assets"
    source.mkdir()
    for number in range(FILES):
        a_csv(source / f"{number}.csv", 100, first=number * 100)
    run = an_import(source, queue)
    with a_session() as session, a_driver("typed", run, child_environment, tmp_path) as driver:
        session.execute("SELECT pg_advisory_xact_lock(%s)", [lock_number(str(run.pk), LAST)])
        eventually(lambda: staged(run) == LAST, driver)
        driver.process.send_signal(signal.SIGINT)
        assert driver.process.wait(100) == 1

    assert (now(run).state, staged(run)) == ("CANCELLED", 0)
    assert StoredObject.objects.count() == 0
    assert f"bulk_run {run.pk} --again" in driver.text()
    assert "Traceback" not in driver.text()
