"""Each job by `manage.py`: the rows are counted in its target.

How each runs in the Spark driver is in `test_driver`, and under spark-submit in `test_submit`.
"""

import json
import re
import signal
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from io import StringIO
from pathlib import Path
from typing import Any, Final

import pytest
from django.core.management import call_command, load_command_class
from django.db import connections

from crontasks.bulk import driver
from crontasks.bulk.asking import ask
from crontasks.bulk.command import BulkCommand
from integration.models import BulkRun, StoredObject
from spark_jobs.running import JOBS
from spark_jobs.session import open_session
from tests.support.bulk import SPARK, an_asset_structure, an_import, shared_session
from tests.support.every_job import CASES, Asked, World, ask_by_schedule, asked_in_the_console
from tests.support.exports import a_plain_queue
from tests.support.run_driver import a_session, eventually, hold
from tests.support.spark_driver import LAST, now, some_files, staged

MOMENT: Final = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+\+00:00")
pytestmark = [
    pytest.mark.servers,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("valkey"),
    pytest.mark.timeout(500),
]


def test_every_job_is_among_the_cases() -> None:
    assert {case.__name__.partition("_")[0] for case in CASES} == set(JOBS)


def words(job: str, job_request: Mapping[str, Any]) -> list[str]:
    """The job request as somebody types it."""
    command = load_command_class("crontasks", f"bulk_{job}")
    assert isinstance(command, BulkCommand)
    first, then = [], []
    for name, value in job_request.items():
        if name in command.positional:
            first.append(value)
        elif name in command.lines:
            for line in value.splitlines():
                then += [f"--{command.lines[name]}", line]
        else:
            then += [f"--{name.replace('_', '-')}", value]
    return [*first, *then, "--reason", "agreed"]


@pytest.fixture(scope="module", autouse=True)
def spark() -> Any:
    return shared_session()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_a_command_drives_it_to_the_last_row(world: World, case: Callable[[World], Asked]) -> None:
    asked = case(world)
    out = StringIO()
    said = words(asked.job, asked.job_request)
    try:
        call_command(f"bulk_{asked.job}", *said, stdout=out, stderr=StringIO())
    except SystemExit:
        pytest.fail(f"it did not end well: {out.getvalue()}")
    run = BulkRun.objects.get()
    assert (run.state, run.problem) == ("DONE", None)
    assert json.loads(out.getvalue())["sent"] == asked.sent
    asked.holds(run)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_a_schedule_and_the_console_ask_for_the_same_as_a_command(
    world: World, case: Callable[[World], Asked]
) -> None:
    """A driver sees no difference: that it drives what it is sent is in `test_driver`."""
    asked = case(world)
    ask_by_schedule(asked)
    scheduled = BulkRun.objects.get()
    typed = ask(asked.job, asked.job_request, actor="ada", send=False)
    typed.refresh_from_db()
    assert what(scheduled) == what(asked_in_the_console(asked)) == what(typed)
    # Only the console leaves one, as it may be on another host: `test_console_bulk_uploads`.
    assert (scheduled.sentinel, typed.sentinel) == ("", "")


def what(run: BulkRun) -> tuple[Any, ...]:
    """All that a driver is told, but for when it was asked for and the arrival number drawn."""
    parameters = {name: value for name, value in run.parameters.items() if name != "arrival"}
    told = MOMENT.sub("then", json.dumps(parameters, sort_keys=True))
    return run.job, run.job_request, told, run.plan, run.state, run.queues


def test_ctrl_c_cancels_the_run_and_says_how_to_go_on(
    servers: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It comes to this process, which drives the run: one of its own would start another JVM."""
    an_asset_structure()
    run = an_import(some_files(tmp_path / "assets"), a_plain_queue("rejects"))
    errors = StringIO()
    with a_session() as session, ThreadPoolExecutor(1) as other:
        hold(session, run, LAST)
        pressed = other.submit(press_ctrl_c_once, lambda: staged(run) == LAST)
        with pytest.raises(SystemExit) as ended:
            call_command("bulk_run", str(run.pk), stdout=StringIO(), stderr=errors)
        pressed.result()

    assert ended.value.code == 1
    assert (now(run).state, staged(run)) == ("CANCELLED", 0)
    assert StoredObject.objects.count() == 0
    assert f"bulk_run {run.pk} --again" in errors.getvalue()
    told = [
        one.getMessage()
        for one in caplog.records
        if one.name != "asyncio" and (one.exc_info or one.levelname == "ERROR")
    ]
    assert ("Traceback" in errors.getvalue(), told) == (False, [])


def press_ctrl_c_once(condition: Callable[[], bool]) -> None:
    """Interrupt this process when it has come to that; for a thread beside the one at work."""
    try:
        eventually(condition)
        signal.raise_signal(signal.SIGINT)
    finally:
        connections.close_all()


def test_workers_of_a_driver_that_waits_are_given_a_task_now_and_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def jobs() -> int:
        context = open_session(SPARK).sparkContext
        # What has happened is told to the tracker by a thread of its own.
        context._jsc.sc().listenerBus().waitUntilEmpty()
        return len(context.statusTracker().getJobIdsForGroup())

    keeper = driver.Keeper()
    keeper.keep()
    before = jobs()
    keeper.keep()
    assert jobs() == before, "it was warmed a moment ago"
    monkeypatch.setattr(driver, "KEPT_SECONDS", 0.0)
    keeper.keep()
    assert jobs() == before + 1
