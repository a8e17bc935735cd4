"""Exports on a real Spark out of a real database: every row once, and the files prove it."""

import base64
import hashlib
import json
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.utils import timezone

from crontasks.bulk import driving
from crontasks.bulk.deciding import again, cancel
from crontasks.bulk.driving import drive
from integration.models import (
    BulkRun,
    MaskingRule,
    MessageTrack,
    ObjectStructure,
    Queue,
    StoredObject,
)
from tests.support.bulk import an_asset_structure, shared_session
from tests.support.exports import (
    a_document,
    a_plain_queue,
    an_export,
    csv_of,
    files_of,
    folder_of,
    in_ranges,
    left_over,
    lines_of,
    manifest_of,
    some_documents,
)
from tests.support.full_disk import files_no_longer_than
from tests.support.tracks import a_track_row

pytestmark = [
    pytest.mark.servers,
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(500),
]


@pytest.fixture(scope="module", autouse=True)
def spark() -> Any:
    return shared_session()


@pytest.fixture(autouse=True)
def root(servers: Any, tmp_path: Path, settings: Any) -> Path:
    settings.SLUICE_BULK_ROOT = tmp_path / "bulk"
    return tmp_path / "bulk"


@pytest.fixture
def structure(servers: Any) -> ObjectStructure:
    return an_asset_structure()


@pytest.fixture
def queue(servers: Any) -> Queue:
    return a_plain_queue("orders")


def driven(run: BulkRun) -> BulkRun:
    ended = drive(run.pk, owner="a test")
    assert ended is not None
    return ended


def done(run: BulkRun) -> BulkRun:
    ended = driven(run)
    assert (ended.problem, ended.state) == (None, "DONE")
    return ended


def test_documents_are_written_once_each_and_the_manifest_proves_it(
    structure: ObjectStructure,
) -> None:
    some_documents(structure, 2_000)
    a_document(structure, "GONE", None)

    run = done(in_ranges(an_export(), 300))

    assert run.counts == {"read": 2_000, "sent": 2_000, "rejected": 0, "skipped": 0}
    found = [json.loads(line)["num"] for line in lines_of(run)]
    assert found == list(range(1, 2_001)), "in the order of their keys"
    files = files_of(run)
    assert len(files) == 7 == run.facts["files"]
    assert sum(file.rows for file in files) == 2_000 == StoredObject.objects.count() - 1
    for file in files:
        content = file.path.read_bytes()
        assert (file.bytes, file.sha256) == (len(content), hashlib.sha256(content).hexdigest())
        assert file.rows == content.count(b"\n")
    assert run.facts["listed"] == [{"name": f.name, "bytes": f.bytes} for f in files]
    assert run.facts["bytes"] == sum(file.bytes for file in files) == manifest_of(run)["bytes"]
    assert run.progress["done"] == run.progress["total"]
    assert left_over(run) == []


def test_numbers_keep_their_digits_and_texts_their_signs(structure: ObjectStructure) -> None:
    exact = (
        '{"big": 12345678901234567890123.4500, "small": 0.00000010, "text": "a\\nb\\\\€\\u0001"}'
    )
    a_document(structure, "A", exact)
    a_document(structure, "B", None, xml="<a>1 &lt; \n 2</a>")

    (first, second) = lines_of(done(an_export()))

    for number in ("12345678901234567890123.4500", "0.00000010"):
        assert f": {number}" in first
    assert json.loads(first)["text"] == "a\nb\\€\x01"
    assert json.loads(second) == "<a>1 &lt; \n 2</a>"


def test_csv_quotes_what_needs_it_and_runs_no_formula(structure: ObjectStructure) -> None:
    odd = ['say "hi", twice', "two\r\nlines", "=1+1", "-5", "@x", "", " padded "]
    for number, text in enumerate(odd):
        document = {"text": text, "deep": {"list": [1, {"a": True}]}, "no": None}
        a_document(structure, f"K{number}", json.dumps(document))
    columns = "key=key\ntext=$.text\ndeep=$.deep\nfirst=$.deep.list[0]\nno=$.no\nnot there=$.x.y"

    exact = done(an_export(format="csv", columns=columns))
    quoted = done(an_export(format="csv", columns=columns, formulas="quoted", delimiter=";"))

    rows = csv_of(exact)
    assert [row[1] for row in rows] == odd
    assert rows[0][2:] == ['{"list": [1, {"a": true}]}', "1", "", ""]
    assert exact.counts["sent"] == len(odd) == manifest_of(exact)["files"][0]["rows"]
    text = (folder_of(quoted) / "part-00000.csv").read_text()
    assert text.startswith("key;text;deep;first;no;not there\n")
    assert "K2;'=1+1;" in text
    assert "K3;-5;" in text
    assert "K4;'@x;" in text


def test_parquet_has_typed_columns(structure: ObjectStructure, spark: Any) -> None:
    some_documents(structure, 1_000)
    run = done(in_ranges(an_export(format="parquet"), 300))

    found = spark.read.parquet(str(folder_of(run)))

    assert run.counts["sent"] == 1_000 == found.count() == sum(f.rows for f in files_of(run))
    assert dict(found.dtypes)["updated_at"] == "timestamp"
    rows = {row["key"]: row for row in found.collect()}
    for stored in StoredObject.objects.all():
        row = rows.pop(stored.key)
        assert (row["version"], row["deleted"]) == (1, False)
        assert json.loads(row["document"]) == stored.document
        assert f'"price": {stored.document["num"]}.10' in row["document"]
        assert row["updated_at"].astimezone(UTC) == stored.updated_at
    assert rows == {}


def test_tracked_messages_of_all_days_with_their_payloads(queue: Queue, spark: Any) -> None:
    other = a_plain_queue("others")
    texts = [b'{"n": 1.50, "s": "x\\ny"}', b"plain text", b"\xff\xfe", None]
    for number, payload in enumerate(texts):
        more = {} if payload is None else {"payload": payload}
        a_track_row(queue, message_id=f"m{number}", key=f"k{number}", **more)
    a_track_row(queue, message_id="old", at=datetime(2025, 1, 1, tzinfo=UTC))
    a_track_row(other, message_id="not ours")
    columns = "id=message_id\nqueue=queue\nn=$.n\ns=$.s\npayload=payload\nb=payload_base64"

    run = done(an_export("messages", queue="orders", columns=columns))

    ours = MessageTrack.objects.filter(queue=queue)
    assert run.counts["sent"] == ours.count() == 5
    rows = {row["id"]: row for row in map(json.loads, lines_of(run))}
    assert set(rows) == {"m0", "m1", "m2", "m3", "old"}
    assert rows["m0"] == {
        "id": "m0",
        "queue": "orders",
        "n": 1.5,
        "s": "x\ny",
        "payload": texts[0].decode(),
        "b": None,
    }
    assert '"n":1.50,' in "".join(lines_of(run))
    assert rows["m1"]["payload"] == "plain text"
    assert (rows["m2"]["payload"], rows["m2"]["b"]) == (
        None,
        base64.b64encode(b"\xff\xfe").decode(),
    )
    assert rows["m3"]["payload"] is None

    binary = done(an_export("messages", queue="orders", payload=True, format="parquet"))
    found = spark.read.parquet(str(folder_of(binary))).collect()
    assert {row["message_id"]: row["payload"] for row in found} == {
        **{f"m{number}": payload for number, payload in enumerate(texts)},
        "old": None,
    }


def test_files_have_placeholders_for_what_is_masked(
    structure: ObjectStructure, queue: Queue
) -> None:
    a_document(structure, "A", '{"num": 1, "card": "4000-1234"}')
    a_track_row(queue, external_id="x", payload=b'{"card": "4000-1234", "num": 2}')
    MaskingRule.objects.create(name="cards", path="$.card")

    documents = done(an_export())
    messages = done(an_export(what="messages", structure="", format="csv", payload=True))

    [line] = lines_of(documents)
    assert json.loads(line) == {"num": 1, "card": "⟦masked 1⟧"}
    assert messages.counts["sent"] == 1
    for run in (documents, messages):
        files = [path.read_text() for path in folder_of(run).iterdir()]
        assert any("⟦masked 1⟧" in text for text in files)
        assert not any("4000-1234" in text for text in files)


def test_nothing_to_export_is_an_empty_file_with_its_header(structure: ObjectStructure) -> None:
    run = done(an_export(format="csv", columns="k=key"))
    assert run.counts == {"read": 0, "sent": 0, "rejected": 0, "skipped": 0}
    assert [path.read_text() for path in folder_of(run).glob("part-*")] == ["k\n"]
    parquet = done(an_export(format="parquet"))
    assert (parquet.counts["sent"], parquet.facts["files"]) == (0, 1)


def test_what_changes_meanwhile_is_exported_as_it_was(
    structure: ObjectStructure, monkeypatch: pytest.MonkeyPatch
) -> None:
    some_documents(structure, 500)
    run = in_ranges(an_export(), 50)
    told = driving.RowTell.say

    def and_change(self: driving.RowTell, line: str) -> None:
        told(self, line)
        StoredObject.objects.filter(key__endswith="7").delete()
        StoredObject.objects.update(document={"num": "changed"})

    monkeypatch.setattr(driving.RowTell, "say", and_change)
    ended = done(run)
    assert [json.loads(line)["num"] for line in lines_of(ended)] == list(range(1, 501))


def test_a_cancelled_run_leaves_nothing(
    structure: ObjectStructure, monkeypatch: pytest.MonkeyPatch
) -> None:
    some_documents(structure, 2_000)
    run = in_ranges(an_export(), 100)
    told = driving.RowTell.say

    def and_cancel(self: driving.RowTell, line: str) -> None:
        told(self, line)
        assert cancel(run.pk)

    monkeypatch.setattr(driving.RowTell, "say", and_cancel)
    ended = driven(run)
    assert ended.state == "CANCELLED"
    assert not folder_of(run).exists()
    assert left_over(run) == []
    monkeypatch.undo()
    assert again(run.pk)
    assert done(run).counts["sent"] == 2_000


def test_a_driver_that_lost_the_run_moves_nothing_into_place(
    structure: ObjectStructure, monkeypatch: pytest.MonkeyPatch
) -> None:
    some_documents(structure, 100)
    run = an_export()
    monkeypatch.setattr(driving.RowTell, "go_on", lambda _: None)
    told = driving.RowTell.say

    def and_lose(self: driving.RowTell, line: str) -> None:
        told(self, line)
        BulkRun.objects.filter(pk=run.pk).update(epoch=99)

    monkeypatch.setattr(driving.RowTell, "say", and_lose)
    drive(run.pk, owner="too slow")

    run.refresh_from_db()
    assert (run.applied, run.state, run.epoch) == (False, "RUNNING", 99)
    assert not folder_of(run).exists()


def test_a_whole_folder_whose_driver_died_counts(structure: ObjectStructure) -> None:
    some_documents(structure, 300)
    run = done(an_export())
    before = {path.name: path.stat().st_ino for path in folder_of(run).iterdir()}
    some_documents(ObjectStructure.objects.create(name="MORE", key_paths=["$.a"]), 10)
    BulkRun.objects.update(state="ASKED", applied=False, counts={}, facts={})

    repeated = done(run)

    assert (repeated.counts, repeated.facts) == (run.counts, run.facts)
    assert {path.name: path.stat().st_ino for path in folder_of(run).iterdir()} == before
    BulkRun.objects.update(state="ASKED")
    assert done(run).facts == run.facts, "what was applied is told again"


def test_a_plan_is_stored_and_read_again(structure: ObjectStructure) -> None:
    some_documents(structure, 500)
    run = done(an_export())
    assert [part["low"] for part in run.plan["ranges"]] == [None]
    assert run.plan["ranges"][0]["high"] is None
    more = in_ranges(an_export(), 100)
    plan = more.plan
    assert done(more).plan == plan
    assert len(files_of(more)) == len(plan["ranges"]) == 6


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_a_full_disk_leaves_nothing_and_the_next_try_all(
    structure: ObjectStructure, form: str
) -> None:
    a_document(structure, "WARM", '{"num": 0}')
    done(an_export(format=form))  # what Spark unpacks for itself the first time is no export
    some_documents(structure, 3_000)
    run = an_export(format=form)
    with files_no_longer_than(8_000):
        failed = driven(run)
    assert failed.problem[0] == "DISK_FULL"
    assert not folder_of(run).exists()
    assert left_over(run) == []
    assert again(run.pk)
    assert done(run).counts["sent"] == 3_001


def test_the_command_exports_and_tells_what_it_wrote(structure: ObjectStructure) -> None:
    some_documents(structure, 20)
    out = StringIO()
    call_command(
        "bulk_export", "documents", "--structure", "ASSET", "--since", "1 d", "--column", "k=key",
        stdout=out, stderr=StringIO(),
    )  # fmt: skip
    told = json.loads(out.getvalue())
    assert (told["state"], told["sent"], told["facts"]["files"]) == ("DONE", 20, 1)
    run = BulkRun.objects.get()
    assert json.loads(lines_of(run)[0]) == {"k": "A-000001"}
    assert run.parameters["since"] < (timezone.now() - timedelta(hours=23)).isoformat()
