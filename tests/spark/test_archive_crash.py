"""A driver is killed while it writes, the next one while it drops: each row is somewhere, once."""

from pathlib import Path
from typing import Any, Final

import pytest
from django.db import connection

from integration.models import BulkRun, ErrorAttempt, MessageError
from tests.support.archives import (
    an_archive,
    archived_files,
    archived_ids,
    counts,
    done,
    manifests_of,
    some_failures,
    work_of,
)
from tests.support.bulk import shared_session
from tests.support.celery_world import Child
from tests.support.exports import a_plain_queue
from tests.support.run_driver import a_driver, a_session, eventually, let_the_lease_end, waits

pytestmark = [
    pytest.mark.servers,
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(600),
]
# More than are dropped in one transaction.
ROWS: Final = 1_200
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


def while_it_writes(run: BulkRun, driver: Child) -> None:
    eventually(lambda: work_of(run), driver)
    driver.kill()
    assert (MessageError.objects.count(), ErrorAttempt.objects.count()) == (ROWS, ROWS)
    assert (archived_files(run), manifests_of(run)) == ([], [])


def half_way(run: BulkRun, driver: Child) -> None:
    """It has dropped some, and waits in the next transaction, which has begun to drop."""
    with a_session() as session:
        session.execute("SELECT pg_advisory_xact_lock(%s)", [STOP])
        with connection.cursor() as cursor:
            cursor.execute(STOPPING)
        try:
            eventually(lambda: waits(session, "DELETE FROM integration_messageerror"), driver)
            driver.kill()
            assert 0 < MessageError.objects.count() < ROWS
            assert len(archived_ids(run)) == ROWS
        finally:
            driver.end()
            with connection.cursor() as cursor:
                cursor.execute("DROP FUNCTION a_stop CASCADE")


def test_killed_drivers_cost_nothing(
    servers: Any, child_environment: dict[str, str], tmp_path: Path, settings: Any
) -> None:
    settings.SLUICE_BULK_ROOT = tmp_path / "bulk"
    wanted = sorted(str(row.pk) for row in some_failures(a_plain_queue("orders"), ROWS))
    run = an_archive("failures")
    for kill in (while_it_writes, half_way):
        with a_driver(kill.__name__, run, child_environment, tmp_path) as driver:
            kill(run, driver)
        let_the_lease_end(run)

    ended = done(run)

    assert (ended.counts, ended.deaths) == (counts(ROWS), 2)
    assert (MessageError.objects.count(), ErrorAttempt.objects.count()) == (0, 0)
    assert sorted(archived_ids(run)) == wanted
