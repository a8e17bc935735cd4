"""The driver is killed at every step of an export: the next one ends with the exact rows."""

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest
from django.db import connection

from integration.models import BulkRun, StoredObject
from tests.support.bulk import an_asset_structure, shared_session
from tests.support.celery_world import Child, eventually
from tests.support.exports import (
    an_export,
    folder_of,
    in_ranges,
    left_over,
    lines_of,
    manifest_of,
    some_documents,
)
from tests.support.run_driver import a_driver, a_session, taken_over

pytestmark = [
    pytest.mark.servers,
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(500),
]
ROWS, RANGE, RANGES = 3_000, 200, 16
PATIENCE: Final = 200.0

Killing = Callable[[BulkRun, psycopg.Connection[Any], Child], None]


@pytest.fixture(scope="module", autouse=True)
def spark() -> Any:
    """For the drivers that go on; those that are killed have one of their own."""
    return shared_session()


def when_planned(run: BulkRun, _session: psycopg.Connection[Any], driver: Child) -> None:
    eventually(lambda: left_over(run), driver, seconds=PATIENCE)
    driver.kill()


def mid_write(run: BulkRun, session: psycopg.Connection[Any], driver: Child) -> None:
    """Some files are there; those who read wait behind one who wants the table for himself."""
    eventually(lambda: _written(run), driver, seconds=PATIENCE)
    lock = threading.Thread(target=_take, args=(session,), daemon=True)
    lock.start()
    eventually(_is_waiting, driver, seconds=PATIENCE)
    assert 0 < _written(run) < RANGES
    driver.kill()
    lock.join(PATIENCE)


def before_the_move(run: BulkRun, session: psycopg.Connection[Any], driver: Child) -> None:
    eventually(lambda: _written(run), driver, seconds=PATIENCE)
    session.execute("SELECT 1 FROM integration_bulkrun WHERE id = %s FOR UPDATE", [run.pk])
    eventually(lambda: _written(run) == RANGES, driver, seconds=PATIENCE)
    driver.kill()


def when_moved(run: BulkRun, _session: psycopg.Connection[Any], driver: Child) -> None:
    eventually(lambda: folder_of(run).exists(), driver, seconds=PATIENCE)
    driver.kill()


def _written(run: BulkRun) -> int:
    return sum(len(list(folder.glob("part-*"))) for folder in left_over(run))


def _take(session: psycopg.Connection[Any]) -> None:
    session.execute("LOCK TABLE integration_storedobject IN ACCESS EXCLUSIVE MODE")


def _is_waiting() -> bool:
    """A task that reads waits for the table."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' "
            "AND application_name = 'sluice bulk')"
        )
        return bool(cursor.fetchone()[0])


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kill", [when_planned, mid_write, before_the_move, when_moved])
def test_a_killed_driver_costs_nothing(
    servers: Any, kill: Killing, child_environment: dict[str, str], tmp_path: Path, settings: Any
) -> None:
    settings.SLUICE_BULK_ROOT = tmp_path / "bulk"
    some_documents(an_asset_structure(), ROWS)
    run = in_ranges(an_export(), RANGE)
    with a_session() as session, a_driver("killed", run, child_environment, tmp_path) as driver:
        kill(run, session, driver)

    ended = taken_over(run)

    assert (ended.state, ended.problem, ended.plan) == ("DONE", None, run.plan)
    assert ended.counts == {"read": ROWS, "sent": ROWS, "rejected": 0, "skipped": 0}
    found = [json.loads(line)["num"] for line in lines_of(ended)]
    assert found == list(range(1, ROWS + 1))
    assert len(found) == StoredObject.objects.count() == manifest_of(ended)["rows"]
    assert left_over(ended) == []
