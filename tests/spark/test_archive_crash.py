"""The driver is killed while it writes, and while it drops: nothing is lost or there twice."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest
from django.db import connection

from integration.models import BulkRun, ErrorAttempt, MessageError
from tests.support.archives import an_archive, archived_ids, counts, done, some_failures, work_of
from tests.support.bulk import shared_session
from tests.support.celery_world import Child, eventually
from tests.support.exports import a_plain_queue
from tests.support.run_driver import a_driver, a_session, let_the_lease_end

pytestmark = [
    pytest.mark.servers,
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(600),
]
# More than are dropped in one transaction.
ROWS: Final = 1_200
PATIENCE: Final = 200.0
# Whoever holds this lock holds up everybody who deletes failures after the first of them.
STOP: Final = 7_302_025
STOPPING: Final = f"""
CREATE FUNCTION a_stop() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  IF (SELECT count(*) FROM integration_messageerror) < {ROWS} THEN
    PERFORM pg_advisory_xact_lock({STOP});
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER a_stop BEFORE DELETE ON integration_messageerror
  FOR EACH STATEMENT EXECUTE FUNCTION a_stop()
"""


@pytest.fixture(scope="module", autouse=True)
def spark() -> Any:
    """Where the driver here goes on with what the other one began."""
    return shared_session()


Killing = Callable[[BulkRun, psycopg.Connection[Any], Child], None]


def while_it_writes(run: BulkRun, _session: psycopg.Connection[Any], driver: Child) -> None:
    eventually(lambda: work_of(run), driver, seconds=PATIENCE)
    driver.kill()
    assert MessageError.objects.count() == ROWS


def half_way(_run: BulkRun, session: psycopg.Connection[Any], driver: Child) -> None:
    """It has dropped some, and waits in the next transaction, which has begun to drop."""
    session.execute("SELECT pg_advisory_xact_lock(%s)", [STOP])
    with connection.cursor() as cursor:
        cursor.execute(STOPPING)
    try:
        eventually(
            lambda: (
                MessageError.objects.count() < ROWS
                and _waits("DELETE FROM integration_messageerror%")
            ),
            driver,
            seconds=PATIENCE,
        )
        driver.kill()
        assert MessageError.objects.exists()
    finally:
        driver.end()
        with connection.cursor() as cursor:
            cursor.execute("DROP FUNCTION a_stop CASCADE")


def _waits(statement: str) -> bool:
    """Whether somebody waits for a lock in such a statement."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' "
            "AND datname = current_database() AND query LIKE %s)",
            [statement],
        )
        return bool(cursor.fetchone()[0])


@pytest.mark.parametrize("kill", [while_it_writes, half_way])
def test_a_killed_driver_costs_nothing(
    servers: Any, kill: Killing, child_environment: dict[str, str], tmp_path: Path, settings: Any
) -> None:
    settings.SLUICE_BULK_ROOT = tmp_path / "bulk"
    wanted = sorted(str(row.pk) for row in some_failures(a_plain_queue("orders"), ROWS))
    run = an_archive("failures")
    with a_session() as session, a_driver("killed", run, child_environment, tmp_path) as driver:
        kill(run, session, driver)
    let_the_lease_end(run)

    ended = done(run)

    assert ended.counts == counts(ROWS)
    assert (MessageError.objects.count(), ErrorAttempt.objects.count()) == (0, 0)
    assert sorted(archived_ids(run)) == wanted
