"""The steps of an export at which its driver is killed: the next one ends with the exact rows."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Final

from integration.models import BulkRun, StoredObject
from tests.support.bulk import an_asset_structure
from tests.support.exports import (
    an_export,
    folder_of,
    in_ranges,
    left_over,
    lines_of,
    manifest_of,
    some_documents,
)
from tests.support.run_driver import (
    LOCK_ROW,
    DriverOfMany,
    Killed,
    Step,
    a_session,
    eventually,
    stopped,
    waits,
)

ROWS: Final = 1_500
# In few ranges, but where some are to be left when the first is written.
LARGE, SMALL = 250, 100
# Whoever holds this lock holds up the run's end, which is written behind the move.
STOP: Final = 7_302_026
STOPPING: Final = f"""
CREATE FUNCTION a_stop_of_ends() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  PERFORM pg_advisory_xact_lock({STOP});
  RETURN NEW;
END $$;
CREATE TRIGGER a_stop_of_ends BEFORE UPDATE ON integration_bulkrun
  FOR EACH ROW WHEN (NEW.applied) EXECUTE FUNCTION a_stop_of_ends()
"""


@contextmanager
def when_moved(run: BulkRun, driver: DriverOfMany) -> Iterator[None]:
    """Its folder is in its place, and that is not written down."""
    with stopped(STOP, STOPPING, "a_stop_of_ends"):
        driver.drive(run)
        eventually(folder_of(run).exists, driver)
        yield
        run.refresh_from_db()
        assert not run.applied


@contextmanager
def before_the_move(run: BulkRun, driver: DriverOfMany) -> Iterator[None]:
    with a_session() as claiming:
        driver.drive(run)
        eventually(lambda: _written(run), driver)
        claiming.execute(LOCK_ROW, [run.pk])
        eventually(lambda: _written(run) == _ranges(run), driver)
        yield
        assert not folder_of(run).exists()


@contextmanager
def mid_write(run: BulkRun, driver: DriverOfMany) -> Iterator[None]:
    """Some files are there; those who read wait behind one who wants the table for himself."""
    with a_session() as wanting, ThreadPoolExecutor(1) as other:
        driver.drive(run)
        eventually(lambda: _written(run), driver, every=0.005)
        taken = other.submit(
            wanting.execute, "LOCK TABLE integration_storedobject IN ACCESS EXCLUSIVE MODE"
        )
        eventually(lambda: waits(wanting), driver)
        yield
        assert 0 < _written(run) < _ranges(run)
        taken.result()


@contextmanager
def when_planned(run: BulkRun, driver: DriverOfMany) -> Iterator[None]:
    """Its folder is made; to read it waits, as the last one does."""
    driver.drive(run)
    eventually(lambda: left_over(run), driver)
    yield
    assert _written(run) == 0


# The last two keep the table from the others.
STEPS: Final[tuple[Step, ...]] = when_moved, before_the_move, mid_write, when_planned


def _ranges(run: BulkRun) -> int:
    return len(run.plan["ranges"])


def _written(run: BulkRun) -> int:
    return sum(len(list(folder.glob("part-*"))) for folder in left_over(run))


def killed_exports() -> Killed:
    """A run for each step, of the same documents."""
    some_documents(an_asset_structure(), ROWS)
    runs = {step: in_ranges(an_export(), SMALL if step is mid_write else LARGE) for step in STEPS}
    plans = {run.pk: run.plan for run in runs.values()}

    def holds(_: Step, run: BulkRun) -> None:
        assert (run.state, run.problem, run.plan) == ("DONE", None, plans[run.pk])
        assert run.deaths == 1
        assert run.counts == {"read": ROWS, "sent": ROWS, "rejected": 0, "skipped": 0}
        found = [json.loads(line)["num"] for line in lines_of(run)]
        assert found == list(range(1, ROWS + 1))
        assert len(found) == StoredObject.objects.count() == manifest_of(run)["rows"]
        assert left_over(run) == []

    return Killed(runs, holds)
