"""Asking for a repair, and looking first: nothing of it needs Spark."""

import io
import json
import uuid
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.urls import reverse

from console.layout.access import Right
from crontasks.bulk.asking import preview
from crontasks.bulk.errors import BulkError
from integration.models import BulkRun, ExternalSystem, MessageError, Provider, Queue
from integration.registries import known
from integration.selectors.failures.cause_ids import cause_id
from spark_jobs.repairs import preview as previewing
from spark_jobs.repairs.judging import Judge, Row
from spark_jobs.repairs.parameters import RepairParameters
from spark_jobs.tables import reading
from tests.support.avro import ORDER, an_avro
from tests.support.bulk import an_asset_structure, storing
from tests.support.bulk_pages import a_run, act, logged_in
from tests.support.repairs import CODE, SITE, a_repair, some_assets
from tests.support.rows import a_queue_row
from tests.support.small_registry import SmallRegistry

pytestmark = [pytest.mark.servers, pytest.mark.django_db(transaction=True)]

SITEID = {"name": "siteid", "type": ["null", "string"], "default": None}


@pytest.fixture
def queue() -> Queue:
    return storing(a_queue_row("continuous"), an_asset_structure())


def test_a_look_first_tells_counts_causes_and_differences_and_writes_nothing(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    some_assets(queue, 50)
    some_assets(queue, 10, first=50, payload=b'{"siteid":"X"}')
    job_request = {"recipe": SITE, "queue": queue.name, "code": CODE}
    seen = preview("repair", job_request)
    assert (seen.rows, seen.facts["tried"], seen.facts["is_all"]) == (60, 60, True)
    assert (seen.facts["edited"], seen.facts["invalid"]) == (50, 10)
    assert [one["messages"] for one in seen.facts["causes"]] == [10]
    assert len(seen.samples) == 20
    assert seen.samples[0].ends == "edited"
    assert '+   "siteid": "BEDFORD"' in seen.samples[0].text
    monkeypatch.setattr(previewing, "TRIED", 12)
    seen = preview("repair", job_request)
    assert (seen.rows, seen.facts["tried"], seen.facts["is_all"]) == (60, 12, False)
    assert not BulkRun.objects.exists()
    assert MessageError.objects.filter(version=1).count() == 60


def test_a_look_that_would_read_too_much_is_given_up(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    some_assets(queue, 100)
    with connection.cursor() as cursor:
        long = "UPDATE integration_messageerror SET payload = convert_to(repeat('x', 2000000), %s)"
        cursor.execute(long, ["utf-8"])
        cursor.execute("ANALYZE integration_messageerror")
    monkeypatch.setattr(reading, "LONGEST_SECONDS", 0.1)
    found = preview("repair", {"recipe": SITE, "queue": queue.name, "text": "nowhere"})
    assert (found.samples, found.bytes, found.facts["counted"]) == ([], None, False)
    assert found.rows, "as the planner guesses"


@pytest.mark.parametrize(
    ("job_request", "code"),
    [
        ({"queue": "none"}, "UNKNOWN_QUEUE"),
        ({"system": "none"}, "UNKNOWN_SYSTEM"),
        ({}, "BAD_PARAMETERS"),
        ({"code": "X", "since": "yesterday"}, "BAD_PARAMETERS"),
        ({"code": "X", "stop_after": "many"}, "BAD_PARAMETERS"),
        ({"code": "X", "cause": "0123456789abcdef"}, "BAD_PARAMETERS"),
        ({"code": "X", "rate": 0}, "BAD_PARAMETERS"),
        ({"code": "X", "recipe": "[]"}, "BAD_RECIPE"),
    ],
)
def test_what_cannot_be_understood_is_refused(
    queue: Queue, job_request: dict[str, Any], code: str
) -> None:
    with pytest.raises(BulkError) as told:
        preview("repair", {"recipe": SITE, **job_request})
    assert told.value.job_code == code


def test_messages_of_a_registry_are_repaired_by_the_schemas_as_they_are_when_asked(
    queue: Queue, small_registry: SmallRegistry
) -> None:
    known.forget_everything()
    Provider.objects.filter(pk=queue.provider_id).update(registry_url=small_registry.url)
    order = {**ORDER, "fields": [{"name": "assetnum", "type": "string"}, SITEID]}
    small_registry.put(7, order, subject=f"{queue.topic}-value")
    some_assets(queue, 2, payload=an_avro({"assetnum": "A", "siteid": None}, order))
    some_assets(queue, 1, first=2, payload=b"\0\0\0\0\x63x")
    some_assets(queue, 1, first=3)
    job_request = {"recipe": SITE, "queue": queue.name}
    run = a_repair(queue)
    judge = Judge(RepairParameters.of(json.loads(json.dumps(run.parameters))))
    record = an_avro({"assetnum": "A", "siteid": None}, order)
    row = Row(0, uuid.uuid4(), 1, queue.pk, 1, "HOLD", "", record, [])
    change = judge.judge(row).change
    assert change is not None
    assert change.record == an_avro({"assetnum": "A", "siteid": "BEDFORD"}, order)

    small_registry.status = 503
    with pytest.raises(BulkError) as told:
        a_repair(queue)
    assert told.value.job_code == "REGISTRY_AWAY"
    assert BulkRun.objects.count() == 1
    small_registry.status = 200
    seen = preview("repair", job_request)
    assert (seen.facts["edited"], seen.facts["not_applicable"]) == (3, 1)
    assert seen.facts["causes"][0]["why"].startswith("SCHEMA_UNKNOWN")
    known.forget_everything()


def test_names_become_what_they_stand_for_when_the_run_is_asked_for(queue: Queue) -> None:
    mine = ExternalSystem.objects.create(name="mine")
    of_mine = a_queue_row("continuous", system=mine)
    asked = a_repair(queue, stop_after="5 %", since="2026-01-31T08:00", service="-").parameters
    selection = asked["selection"]
    assert selection["queues"] == [queue.pk]
    assert selection["since"] == "2026-01-31T08:00:00+00:00"
    assert selection["until"], "what fails later does not join it"
    assert selection["interface"] == ""
    assert asked["stop"] == {"after": None, "share": 5}
    assert asked["structures"]["MXASSET"]["key_paths"] == ["$.assetnum", "$.siteid"]
    assert asked["defaults"] == {str(queue.pk): "MXASSET"}
    assert asked["query"] == f"state=HOLD&queue={queue.name}&interface=-&since=2026-01-31T08%3A00"
    shown = cause_id("0123456789abcdef")
    of_cause = a_repair(queue, cause=shown).parameters
    assert of_cause["selection"]["fingerprint"] == "0123456789abcdef"
    assert shown in of_cause["query"]
    by_system = a_repair(queue, queue="", system="mine").parameters["selection"]
    assert by_system["queues"] == [of_mine.pk]
    of_none = a_repair(queue, queue="", system="-").parameters["selection"]
    assert of_none["queues"] == [queue.pk]


def test_the_command_looks_first_and_wants_a_reason(queue: Queue) -> None:
    some_assets(queue, 3)
    out = io.StringIO()
    call_command("bulk_repair", SITE, queue=queue.name, dry_run=True, stdout=out)
    told = json.loads(out.getvalue())
    assert (told["rows"], told["facts"]["edited"], len(told["samples"])) == (3, 3, 3)
    with pytest.raises(CommandError, match="Say why"):
        call_command("bulk_repair", SITE, queue=queue.name)
    out = io.StringIO()
    words = {"queue": queue.name, "reason": "agreed", "leave": True}
    call_command("bulk_repair", SITE, stdout=out, **words)
    run = BulkRun.objects.get(pk=json.loads(out.getvalue())["run"])
    assert (run.job, run.reason, run.state) == ("repair", "agreed", "ASKED")


def test_a_job_that_edits_payloads_is_for_those_who_may_edit_them(queue: Queue) -> None:
    address = reverse("bulk-new", args=["repair"])
    job_request = {"queue": queue.name, "recipe": '[{"op": "add", "path": "/a", "value": 1}]'}
    operator, editor = logged_in("Operators"), logged_in("Editors")
    run = a_run(job="repair", job_request=job_request, state="FAILED")

    for answer in (
        operator.get(address),
        operator.post(address, {"ask": "1", "job_request": json.dumps(job_request)}),
        act(operator, run, "again"),
    ):
        assert answer.status_code == 403
    assert [one.state for one in BulkRun.objects.all()] == ["FAILED"]
    assert Right.VIEW_PAYLOAD.missing in operator.get(reverse("bulk")).text
    assert editor.get(address).status_code == 200
    assert act(editor, run, "again").status_code == 303
    assert BulkRun.objects.get().state == "ASKED"
