"""The operator API on cron tasks, bulk jobs, the configuration file and the audit."""

import json
import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection, connections

from console.models import Limit
from crontasks.models import CronInstance
from integration.models import ConfigurationChange, ExternalSystem
from tests.support.http_api import problem
from tests.support.operator_api import Program, a_program, facts
from tests.support.rows import a_queue_row

pytestmark = [pytest.mark.servers, pytest.mark.django_db]


@pytest.fixture
def program() -> Program:
    return a_program()


class TestCron:
    def test_an_instance_rests_and_goes_on(self, program: Program) -> None:
        a_queue_row()
        instance = CronInstance.objects.first()
        assert instance is not None
        one = f"/cron/{instance.pk}"
        listed = facts(program.get("/cron", text=instance.name))["instances"]
        assert instance.pk in [row["id"] for row in listed]
        problem(program.post(f"{one}/pauses"), 422, "REASON_MISSING")
        assert facts(program.post(f"{one}/pauses", {"reason": "audit"}))["active"] is False
        assert facts(program.post(f"{one}/activations"))["active"] is True
        assert facts(program.get(f"{one}/runs")) == {"runs": [], "next": None}
        problem(program.get(f"/cron/{2**70}"), 404, "NOT_THERE")

    def test_other_parameters_need_the_right_to_set_up(self) -> None:
        a_queue_row()
        instance = CronInstance.objects.first()
        assert instance is not None
        body = {"parameters": {}}
        answer = a_program("Operators").post(f"/cron/{instance.pk}/runs", body)
        problem(answer, 403, "RIGHT_MISSING")


class TestConfiguration:
    def test_a_file_is_planned_and_applied(self, program: Program) -> None:
        file = b"format: 1\nsystems:\n- name: eam\n"
        planned = facts(program.post("/configuration/plans", file))
        assert [(one["action"], one["name"]) for one in planned["steps"]] == [("create", "eam")]
        assert not ExternalSystem.objects.exists()
        done = facts(program.put("/configuration?reason=go-live", file))
        assert done == planned
        assert ConfigurationChange.objects.get(kind="externalsystem").reason == "go-live"
        assert b"name: eam" in program.get("/configuration").content
        assert facts(program.put("/configuration", file)) == {"steps": []}

    def test_mistakes_are_told_by_their_lines(self, program: Program) -> None:
        said = problem(program.post("/configuration/plans", b"format: 2\n"), 422, "CONFIG_FILE")
        assert said["mistakes"]

    def test_the_servers_variables_are_not_for_it(
        self, program: Program, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("PLANT_PASSWORD", "s3cret")
        file = b"""format: 1
providers:
- name: plant
  bootstrap_servers: a:1
  password: ${ENV:PLANT_PASSWORD}
"""
        said = problem(program.post("/configuration/plans", file), 422, "CONFIG_FILE")
        assert "no variable of the server" in json.dumps(said)

    def test_it_is_for_whom_nothing_limits(self, program: Program) -> None:
        Limit.objects.create(person=program.person)
        problem(program.get("/configuration"), 403, "RIGHT_MISSING")


@pytest.mark.django_db(transaction=True)
def test_a_file_that_another_persons_change_overtook_is_not_applied() -> None:
    """The rights were judged by the plan; what is done is that or nothing."""
    program = a_program()
    walks = 0

    def change() -> None:
        ExternalSystem.objects.create(name="eam", enabled=False)
        connections.close_all()

    other = threading.Thread(target=change)

    def meanwhile(execute: Callable[..., Any], sql: str, *more: Any) -> Any:
        nonlocal walks
        walks += "pg_advisory_xact_lock" in sql
        # The first was the plan's.
        if walks == 2 and other.ident is None:
            other.start()
            other.join(10)
        return execute(sql, *more)

    file = b"format: 1\nsystems:\n- {name: eam, enabled: true}\n- name: wms\n"
    with connection.execute_wrapper(meanwhile):
        problem(program.put("/configuration", file), 409, "FILE_OVERTAKEN")
    assert list(ExternalSystem.objects.values_list("name", "enabled")) == [("eam", False)]
    done = facts(program.put("/configuration", file))
    assert [one["action"] for one in done["steps"]] == ["change", "create"]


class TestAudit:
    def test_what_a_program_did_stands_in_it(self, program: Program) -> None:
        ConfigurationChange.objects.all().delete()
        facts(program.put("/configuration", b"format: 1\nsystems:\n- name: eam\n"))
        [change] = facts(program.get("/changes"))["changes"]
        assert (change["actor"], change["name"]) == (program.person.username, "eam")
        assert facts(program.get(f"/changes/{change['id']}")) == change
        assert facts(program.get("/changes", name="other"))["changes"] == []
        problem(program.get("/changes", at="x"), 422, "BAD_INPUT")


class TestBulk:
    def test_jobs_and_their_runs_are_told(self, program: Program) -> None:
        jobs = facts(program.get("/bulk/jobs"))["jobs"]
        assert {"import", "export"} <= {one["job"] for one in jobs}
        assert facts(program.get("/bulk/runs")) == {"runs": [], "next": None}
        body = {"job": "export", "job_request": {"nothing": 1}}
        problem(program.post("/bulk/runs", body), 422, "BAD_PARAMETERS")
        problem(program.post("/bulk/runs", {"job": "x", "job_request": {}}), 404, "NOT_THERE")
