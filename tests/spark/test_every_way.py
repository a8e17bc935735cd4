"""Each job by `manage.py`, from the console and by schedule: the rows are counted in its target.

How each runs under spark-submit is in `test_submit`.
"""

import json
from collections.abc import Callable, Mapping
from datetime import timedelta
from io import StringIO
from typing import Any
from uuid import uuid4

import pytest
from django.core.management import call_command, load_command_class
from django.utils import timezone

from crontasks import ticks
from crontasks.bulk import driver
from crontasks.bulk.command import BulkCommand
from crontasks.models import CronInstance
from integration.models import BulkRun
from spark_jobs.running import JOBS
from spark_jobs.session import open_session
from tests.support.bulk import SPARK, shared_session
from tests.support.bulk_pages import logged_in, new
from tests.support.every_job import CASES, Asked, World
from tests.support.spark_driver import Drivers, ended

pytestmark = [
    pytest.mark.servers,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("valkey"),
    pytest.mark.timeout(500),
]
Case = Callable[[World], Asked]
each_job = pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)


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


def done() -> BulkRun:
    run = BulkRun.objects.get()
    assert (run.state, run.problem) == ("DONE", None)
    return run


class TestHere:
    @pytest.fixture(scope="class", autouse=True)
    def spark(self) -> None:
        shared_session()

    @each_job
    def test_a_command_drives_it_to_the_last_row(self, world: World, case: Case) -> None:
        asked = case(world)
        out = StringIO()
        said = words(asked.job, asked.job_request)
        try:
            call_command(f"bulk_{asked.job}", *said, stdout=out, stderr=StringIO())
        except SystemExit:
            pytest.fail(f"it did not end well: {out.getvalue()}")
        run = done()
        assert json.loads(out.getvalue())["sent"] == asked.sent
        asked.holds(run)

    def test_workers_of_a_driver_that_waits_are_given_a_task_now_and_then(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def jobs() -> int:
            return len(open_session(SPARK).sparkContext.statusTracker().getJobIdsForGroup())

        keeper = driver.Keeper()
        keeper.keep()
        before = jobs()
        keeper.keep()
        assert jobs() == before, "it was warmed a moment ago"
        monkeypatch.setattr(driver, "KEPT_SECONDS", 0.0)
        keeper.keep()
        assert jobs() == before + 1


class TestInTheDriver:
    @each_job
    def test_it_is_asked_for_in_the_console(
        self, world: World, case: Case, drivers: Drivers, child_environment: dict[str, str]
    ) -> None:
        driver = drivers.living(child_environment)
        asked = case(world)
        job_request = {"job_request": json.dumps(asked.job_request), "reason": "agreed"}
        answer = new(
            logged_in("Editors"), asked.job, {"ask": "1", "run": str(uuid4()), **job_request}
        )
        assert answer.status_code == 303, answer.text
        ended(BulkRun.objects.get(), driver)
        asked.holds(done())

    @each_job
    def test_it_is_asked_for_by_schedule(
        self, world: World, case: Case, drivers: Drivers, child_environment: dict[str, str]
    ) -> None:
        driver = drivers.living(child_environment)
        asked = case(world)
        instance = CronInstance.objects.create(
            name="nightly",
            task="bulk_job",
            interval_seconds=3_600,
            parameters={"job": asked.job, "job_request": json.dumps(asked.job_request)},
        )
        ticks.tick(instance.pk, timezone.now() + timedelta(hours=1))
        run = BulkRun.objects.get()
        assert run.instance == instance.pk
        ended(run, driver)
        asked.holds(done())
