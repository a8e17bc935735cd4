"""The steps of an archive at which its driver is killed: each row is somewhere, once."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from crontasks.models import CronRun
from integration.models import BulkRun, ErrorAttempt, MessageError
from tests.support.archives import (
    an_archive,
    archived_files,
    archived_ids,
    counts,
    manifests_of,
    some_failures,
    some_runs,
    work_of,
)
from tests.support.exports import a_plain_queue
from tests.support.run_driver import DriverOfMany, Killed, Step, eventually, stopped, waits

# More than are dropped in one transaction.
ROWS: Final = 1_200
RUNS, KEPT = 30, 10
# Whoever holds this lock holds up everybody who deletes failures after the first of them.
STOP: Final = 7_302_025
STOPPING: Final = f"""
CREATE FUNCTION a_stop_of_drops() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  IF (SELECT count(*) FROM integration_messageerror) < {ROWS} THEN
    PERFORM pg_advisory_xact_lock({STOP});
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER a_stop_of_drops BEFORE DELETE ON integration_messageerror
  FOR EACH STATEMENT EXECUTE FUNCTION a_stop_of_drops()
"""


@contextmanager
def half_way(run: BulkRun, driver: DriverOfMany) -> Iterator[None]:
    """It has dropped some, and waits in the next transaction, which has begun to drop."""
    with stopped(STOP, STOPPING, "a_stop_of_drops") as stop:
        driver.drive(run)
        eventually(lambda: waits(stop, "DELETE FROM integration_messageerror"), driver)
        yield
        assert 0 < MessageError.objects.count() < ROWS
        assert len(archived_ids(run)) == ROWS


@contextmanager
def while_it_writes(run: BulkRun, driver: DriverOfMany) -> Iterator[None]:
    driver.drive(run)
    eventually(lambda: work_of(run), driver)
    yield
    assert CronRun.objects.count() == RUNS
    assert (archived_files(run), manifests_of(run)) == ([], [])


def killed_archives() -> Killed:
    """Of two kinds: a kind is archived by one run at a time."""
    failures = sorted(str(row.pk) for row in some_failures(a_plain_queue("orders"), ROWS))
    some_runs(RUNS, keep=KEPT)
    oldest = CronRun.objects.order_by("started_at")[: RUNS - KEPT]
    wanted = {half_way: failures, while_it_writes: sorted(str(one.pk) for one in oldest)}

    def holds(step: Step, run: BulkRun) -> None:
        assert (run.problem, run.state, run.deaths) == (None, "DONE", 1)
        assert run.counts == counts(len(wanted[step]))
        assert sorted(archived_ids(run)) == wanted[step]
        assert (work_of(run), manifests_of(run, "_pending")) == ([], [])

    runs: dict[Step, BulkRun] = {half_way: an_archive("failures")}
    runs[while_it_writes] = an_archive("runs")
    return Killed(runs, holds)


def are_dropped() -> None:
    """When all of them were taken over, what was archived is not here any more."""
    assert (MessageError.objects.count(), ErrorAttempt.objects.count()) == (0, 0)
    assert CronRun.objects.count() == KEPT
