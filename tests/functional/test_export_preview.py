"""What an export would write, told without Spark: which rows, how they look, what is refused."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.urls import reverse

from crontasks.bulk.asking import preview
from crontasks.bulk.errors import BulkError
from integration.models import BulkRun, ExternalSystem, MaskingRule, ObjectStructure, Queue
from tests.support.bulk import an_asset_structure
from tests.support.bulk_pages import logged_in, new, see
from tests.support.exports import a_document, a_plain_queue, some_documents
from tests.support.tracks import a_track_row

pytestmark = [pytest.mark.servers, pytest.mark.django_db(transaction=True)]


@pytest.fixture(autouse=True)
def root(tmp_path: Path, settings: Any) -> None:
    settings.SLUICE_BULK_ROOT = tmp_path


@pytest.fixture
def structure(db: Any) -> ObjectStructure:
    return an_asset_structure()


@pytest.fixture
def queue(db: Any) -> Queue:
    return a_plain_queue("orders")


@pytest.mark.parametrize(
    ("job_request", "keys"),
    [
        ({"key": "A*"}, {"A1", "A2"}),
        ({"key": "?1"}, {"A1", "B1"}),
        ({"key": "100%*"}, {"100%_"}),
        ({"since": "2026-01-05"}, {"A2", "B1", "100%_"}),
        ({"since": "2026-01-05T00:00Z", "until": "2026-01-10T00:00:00+01:00"}, {"A2"}),
        ({"where": "$.site=S=1"}, {"A1"}),
        ({"where": "$.lines[0]['part no']=7"}, {"A2"}),
        ({"where": "$.flag=true"}, {"B1"}),
        ({"where": "$.site=nowhere"}, set()),
        ({"deleted": True, "key": "D*"}, {"D1"}),
    ],
)
def test_filters_choose_what_they_say(
    structure: ObjectStructure, job_request: dict[str, Any], keys: set[str]
) -> None:
    a_document(structure, "A1", '{"site": "S=1"}', updated_at="2026-01-01T00:00Z")
    a_document(structure, "A2", '{"lines": [{"part no": 7}]}', updated_at="2026-01-05T00:00Z")
    a_document(structure, "B1", '{"flag": true, "lines": {"0": 7}}')
    a_document(structure, "100%_", "[7]")
    a_document(structure, "D1", None, updated_at="2026-01-01T00:00Z")
    other = ObjectStructure.objects.create(name="OTHER", key_paths=["$.a"])
    a_document(other, "A1", '{"site": "S=1"}')

    said = {"what": "documents", "structure": "ASSET", "columns": "key=key\ngone=deleted"}
    looked = preview("export", said | job_request)

    found = [json.loads(one.text) for one in looked.samples]
    assert {one["key"] for one in found} == keys
    assert {one["gone"] for one in found} <= {"deleted" in job_request}
    assert looked.rows == len(keys)


@pytest.mark.parametrize(
    ("job_request", "ids"),
    [
        ({}, {"a", "b", "c", "d"}),
        ({"state": "HOLD"}, {"b"}),
        ({"service": "MXPO"}, {"c"}),
        ({"since": "2 h"}, {"b", "c", "d"}),
        ({"since": "2 h", "until": "30 min"}, {"b"}),
        ({"system": "partner"}, {"d"}),
    ],
)
def test_messages_are_chosen_as_people_search_for_them(
    queue: Queue, job_request: dict[str, Any], ids: set[str]
) -> None:
    theirs = a_plain_queue("theirs")
    Queue.objects.filter(pk=theirs.pk).update(system=ExternalSystem.objects.create(name="partner"))
    a_track_row(queue, message_id="a", ago=timedelta(hours=3))
    a_track_row(queue, message_id="b", ago=timedelta(hours=1), ended="HOLD")
    a_track_row(queue, message_id="c", interface="MXPO")
    a_track_row(theirs, message_id="d")

    looked = preview("export", {"what": "messages", "columns": "id=message_id", **job_request})

    assert {json.loads(one.text)["id"] for one in looked.samples} == ids
    assert looked.rows == len(ids)


def test_a_look_first_shows_rows_as_they_would_be_written(structure: ObjectStructure) -> None:
    some_documents(structure, 100)
    found = preview("export", {"what": "documents", "structure": "ASSET", "format": "csv"})
    assert (found.rows, len(found.samples), found.facts) == (100, 20, {"counted": True})
    # A table gives its rows in no certain order, so a sample is held to its own key.
    assert all(one.text.startswith(f"{one.place},1,") for one in found.samples)
    assert "document" in found.columns
    assert found.bytes is not None
    assert found.bytes > 100 * 50
    plain = preview("export", {"what": "documents", "structure": "ASSET"})
    assert {json.loads(one.text)["num"] for one in plain.samples} <= set(range(1, 101))
    assert not BulkRun.objects.exists()


def test_a_look_at_messages_shows_payloads(queue: Queue) -> None:
    a_track_row(queue, payload=b'{"a": 1}', message_id="m")
    for form in ("jsonl", "parquet", "csv"):
        job_request = {"what": "messages", "payload": True, "format": form}
        (sample,) = preview("export", job_request).samples
        assert sample.place == "m"
        assert "a" in sample.text


@pytest.mark.parametrize(
    ("job_request", "code"),
    [
        ({"structure": "NONE"}, "UNKNOWN_STRUCTURE"),
        ({"structure": "ASSET", "queue": "orders"}, "BAD_PARAMETERS"),
        ({"what": "messages", "queue": "none"}, "UNKNOWN_QUEUE"),
        ({"what": "messages", "state": "WELL"}, "BAD_PARAMETERS"),
        ({"what": "messages", "structure": "ASSET"}, "BAD_PARAMETERS"),
        ({"structure": "ASSET", "where": "$.a"}, "BAD_PARAMETERS"),
        ({"structure": "ASSET", "where": "$..a=1"}, "BAD_PARAMETERS"),
        ({"structure": "ASSET", "columns": "a=$.a\nA=$.b"}, "BAD_PARAMETERS"),
        ({"structure": "ASSET", "columns": "a=weight"}, "BAD_PARAMETERS"),
        ({"structure": "ASSET", "deleted": True}, "BAD_PARAMETERS"),
        ({"structure": "ASSET", "since": "soon"}, "BAD_PARAMETERS"),
        ({"structure": "ASSET", "delimiter": '"'}, "BAD_PARAMETERS"),
    ],
)
def test_what_cannot_be_exported_is_told_before_a_run_is_stored(
    structure: ObjectStructure, job_request: dict[str, Any], code: str
) -> None:
    with pytest.raises(BulkError) as told:
        preview("export", {"what": "documents", **job_request})
    assert told.value.job_code == code


def test_an_export_into_a_queue_is_asked_for_in_the_console_by_its_name(
    structure: ObjectStructure, queue: Queue
) -> None:
    client = logged_in("Editors")
    form = client.get(reverse("bulk-new", args=["export"])).context["form"]
    assert (queue.name, queue.name) in form.fields["parameter-into_queue"].choices
    job_request = {"what": "documents", "structure": "ASSET", "into_queue": queue.name}
    for more, code in (
        ({"into_queue": "none"}, "UNKNOWN_QUEUE"),
        ({"format": "csv"}, "BAD_PARAMETERS"),
    ):
        answer = new(client, "export", {"ask": "1", "job_request": json.dumps(job_request | more)})
        assert answer.status_code == 422
        assert f"<code>{code}</code>" in answer.text

    assert (
        new(client, "export", {"ask": "1", "job_request": json.dumps(job_request)}).status_code
        == 303
    )

    run = BulkRun.objects.get()
    assert (run.parameters["folder"], run.parameters["target"]["queue"]) == ("", queue.pk)
    assert queue.name in see(client, run)


def test_what_is_masked_is_masked_in_files_and_tells_nothing_by_what_is_chosen(
    structure: ObjectStructure, queue: Queue
) -> None:
    a_document(structure, "A1", '{"card": "4000-1234", "site": "S1"}')
    a_track_row(queue, key="4000-1234", external_id="4000-1234", payload=b'{"card": "4000-1234"}')
    MaskingRule.objects.create(name="cards", path="$.card")
    MaskingRule.objects.create(name="keys", part="key")
    documents = {"what": "documents", "structure": structure.name}
    messages = {"what": "messages", "queue": queue.name, "payload": True}
    for asked in (documents, {**documents, "columns": "card=$.card\nsite=$.site"}, messages):
        [sample] = preview("export", asked).samples
        assert "4000-1234" not in f"{sample.place} {sample.text}"
        assert "⟦masked" in sample.text
        [true] = preview("export", {**asked, "unmasked": True}).samples
        assert "4000-1234" in true.text
    with pytest.raises(BulkError) as refused:
        preview("export", {**documents, "where": "$.card=4000-1234"})
    assert refused.value.job_code == "MASKED_SOURCE"
    assert len(preview("export", {**documents, "where": "$.site=S1"}).samples) == 1
