"""The steps of an import at which its driver is killed, and what the next one makes of it.

How the Spark driver takes over when some of it is staged is in `test_driver`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import psycopg

from integration.models import BulkRun, MessageError, StoredObject
from tests.support.bulk import an_asset_structure, an_import, stages
from tests.support.exports import a_plain_queue
from tests.support.run_driver import (
    LOCK_ROW,
    DriverOfMany,
    Killed,
    Step,
    a_session,
    applied_and_not_ended,
    eventually,
    hold,
    waits,
)
from tests.support.spark_driver import BAD, FILES, LAST, ROWS, now, some_files, staged


@contextmanager
def when_all_is_staged(run: BulkRun, driver: DriverOfMany) -> Iterator[None]:
    # The last range waits until the run's row is held: otherwise all could be over by then.
    with a_session() as staging, a_session() as claiming:
        hold(staging, run, LAST)
        driver.drive(run)
        eventually(lambda: staged(run) == LAST, driver)
        claiming.execute(LOCK_ROW, [run.pk])
        staging.rollback()
        eventually(lambda: staged(run) == FILES, driver)
        yield
        assert (staged(run), _stored(run)) == (FILES, 0)


@contextmanager
def in_the_commit(run: BulkRun, driver: DriverOfMany) -> Iterator[None]:
    with a_session() as storing:
        _about_to_store(storing, run)
        driver.drive(run)
        eventually(lambda: waits(storing, "INSERT INTO integration_storedobject AS o"), driver)
        yield
        assert (staged(run), _stored(run)) == (FILES, 0)


@contextmanager
def when_applied(run: BulkRun, driver: DriverOfMany) -> Iterator[None]:
    with a_session() as storing:
        _about_to_store(storing, run)
        driver.drive(run)
        eventually(lambda: waits(storing, "INSERT INTO integration_storedobject AS o"), driver)
        with applied_and_not_ended(run, driver, storing):
            yield


@contextmanager
def when_planned(run: BulkRun, driver: DriverOfMany) -> Iterator[None]:
    with a_session() as staging:
        for number in range(FILES):
            hold(staging, run, number)
        driver.drive(run)
        eventually(lambda: now(run).plan and waits(staging), driver)
        yield
        assert staged(run) == 0


# The last one leaves no task of Spark for others.
STEPS: Final[tuple[Step, ...]] = when_all_is_staged, in_the_commit, when_applied, when_planned


def _about_to_store(session: psycopg.Connection[Any], run: BulkRun) -> None:
    """Somebody else stores one of the documents, so that the driver waits until this is undone."""
    session.execute(
        "INSERT INTO integration_storedobject (structure_id, key, xml, version, arrival_batch, "
        "arrival_index, message_id, topic_uuid, updated_at) SELECT id, %s, '', 1, 0, 0, '', '', "
        "now() FROM integration_objectstructure WHERE name = %s",
        ['["A-1","BEDFORD"]', run.job_request["structure"]],
    )


def _stored(run: BulkRun) -> int:
    """How many documents it has stored, each for the first time."""
    there = StoredObject.objects.filter(structure__name=run.job_request["structure"])
    assert there.filter(version=1).count() == there.count()
    return there.count()


def killed_imports(folder: Path) -> Killed:
    """A run for each step, into a structure of its own."""
    source, queue = some_files(folder), a_plain_queue("rejects")
    runs = {}
    for step in STEPS:
        structure = an_asset_structure(name=step.__name__)
        runs[step] = an_import(source, queue, structure=structure.name)
    return Killed(runs, _holds)


def _holds(_: Step, run: BulkRun) -> None:
    good = FILES * (ROWS - BAD)
    assert (run.state, run.problem, run.deaths) == ("DONE", None, 1)
    assert run.counts == {"read": FILES * ROWS, "sent": good, "rejected": FILES * BAD, "skipped": 0}
    assert _stored(run) == good
    # A reject's topic is its run.
    assert MessageError.objects.filter(topic_uuid=str(run.pk)).count() == FILES * BAD
    assert stages(run) == []
