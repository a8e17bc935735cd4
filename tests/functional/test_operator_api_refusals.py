"""What no program should send: the operator API refuses it in words, and nothing is spoilt."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from console.models import Limit
from integration.http_api.errors import MAY_BE_STORED
from integration.models import BulkRun, Endpoint, ExternalSystem, MessageError
from tests.support.http_api import problem
from tests.support.operator_api import Program, a_program, facts
from tests.support.rows import a_blocked_queue, a_queue_row

pytestmark = [pytest.mark.servers, pytest.mark.django_db]
HALF = "\ud800"


@pytest.fixture
def program() -> Program:
    return a_program()


def test_a_pause_ends_when_a_calendar_can_tell_it(program: Program) -> None:
    queue, _, _ = a_blocked_queue()
    one, now = f"/queues/{queue.name}", timezone.now()
    ends = [(now + timedelta(days=days)).isoformat() for days in (-1, 31)]
    for until in (*ends, "9999-12-31T23:59:59-12:00", "0001-01-01T00:00:00+12:00"):
        asked = {"until": until, "reason": "x"}
        told = problem(program.post(f"{one}/pauses", asked), 422, "PAUSE_END_OUTSIDE")
        assert "within the next 30 days" in told["next_step"]
        assert facts(program.get(one))["paused"] is False


def test_a_value_that_cannot_be_read_is_no_outage_of_the_database(program: Program) -> None:
    queue, _, _ = a_blocked_queue()
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE integration_queue SET paused_until = '10000-01-01 UTC' WHERE id = %s",
            [queue.pk],
        )
    problem(program.get(f"/queues/{queue.name}"), 500, "INTERNAL_ERROR")


@pytest.mark.parametrize(
    ("sqlstate", "status", "code"),
    [
        ("40P01", 503, "DEADLOCK"),
        ("40001", 503, "SERIALIZATION_FAILURE"),
        ("55P03", 503, "LOCK_NOT_AVAILABLE"),
        ("23505", 500, "INTERNAL_ERROR"),
    ],
)
def test_who_is_held_up_by_others_may_send_it_again(
    program: Program, caplog: pytest.LogCaptureFixture, sqlstate: str, status: int, code: str
) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE FUNCTION fails() RETURNS trigger LANGUAGE plpgsql AS "
            f"$$ BEGIN RAISE SQLSTATE '{sqlstate}'; END $$; CREATE TRIGGER fails "
            "BEFORE UPDATE ON integration_endpoint FOR EACH ROW EXECUTE FUNCTION fails()"
        )
    system = ExternalSystem.objects.create(name="plant")
    Endpoint.objects.create(name="orders", system=system, endpoint_type="file")
    answer = program.post("/endpoints/orders/disablings", {"reason": "x"})
    said = problem(answer, status, code)
    assert MAY_BE_STORED in said["detail"]
    assert ("Retry-After" in answer) == (status == 503)
    [line] = [one for one in caplog.records if one.name == "console.api.problems"]
    assert line.levelname == ("WARNING" if status == 503 else "ERROR")
    assert Endpoint.objects.get().enabled


@pytest.mark.parametrize(
    ("sqlstate", "code"), [("40001", "SERIALIZATION_FAILURE"), ("53200", "DATABASE_DOWN")]
)
def test_with_a_key_what_the_database_gave_up_is_undone(
    program: Program, sqlstate: str, code: str
) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE FUNCTION fails() RETURNS trigger LANGUAGE plpgsql AS "
            f"$$ BEGIN RAISE SQLSTATE '{sqlstate}'; END $$; CREATE TRIGGER fails "
            "BEFORE UPDATE ON integration_endpoint FOR EACH ROW EXECUTE FUNCTION fails()"
        )
    system = ExternalSystem.objects.create(name="plant")
    Endpoint.objects.create(name="orders", system=system, endpoint_type="file")
    answer = program.post("/endpoints/orders/disablings", {"reason": "x"}, Idempotency_Key="k")
    assert MAY_BE_STORED not in problem(answer, 503, code)["detail"]
    assert Endpoint.objects.get().enabled


@pytest.mark.parametrize(
    ("table", "may_be_stored"),
    [("integration_endpoint", True), ("console_personaltoken", False)],
)
def test_where_the_database_cannot_serve_earlier_steps_may_be_stored(
    program: Program, *, table: str, may_be_stored: bool
) -> None:
    """But not before it is known whose request it is: the token is looked at first."""
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE FUNCTION fails() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE SQLSTATE '53200'; END $$; CREATE TRIGGER fails "
            f"BEFORE UPDATE ON {table} FOR EACH ROW EXECUTE FUNCTION fails()"
        )
    system = ExternalSystem.objects.create(name="plant")
    Endpoint.objects.create(name="orders", system=system, endpoint_type="file")
    said = problem(
        program.post("/endpoints/orders/disablings", {"reason": "x"}), 503, "DATABASE_DOWN"
    )
    assert (MAY_BE_STORED in said["detail"]) == may_be_stored


@pytest.mark.parametrize("text", [HALF, f'{{"a": "{HALF}"}}'])
def test_half_of_a_character_is_no_payload(program: Program, text: str) -> None:
    _, _, error = a_blocked_queue()
    one = f"/failures/{error.pk}"
    for answer in (
        program.put(f"{one}/payload", {"version": error.version, "text": text}),
        program.post(f"{one}/checks", {"text": text}),
    ):
        [mistake] = problem(answer, 422, "BAD_INPUT")["mistakes"]
        assert mistake["place"].endswith("text")
        assert "half of a character" in mistake["text"]
    assert MessageError.objects.get(pk=error.pk).edited_payload is None


@pytest.mark.parametrize(
    "job_request",
    [{"source": HALF}, {"source": "in/\0.csv"}, {"queue": "\0"}, {"queue": HALF}, {HALF: "x"}],
)
def test_a_bulk_job_is_asked_for_in_what_the_database_can_hold(
    job_request: dict[str, str], settings: Any, tmp_path: Path
) -> None:
    settings.SLUICE_BULK_ROOT = tmp_path
    system = ExternalSystem.objects.create(name="theirs")
    a_queue_row("continuous", name="theirs-in", system=system)
    limited = a_program()
    Limit.objects.create(person=limited.person).systems.set([system])
    asked = {"job": "import", "job_request": {"queue": "theirs-in", **job_request}}
    for program in (a_program(), limited):
        for path in ("/bulk/previews", "/bulk/runs"):
            problem(program.post(path, asked), 422, "BAD_PARAMETERS")
    assert not BulkRun.objects.exists()
