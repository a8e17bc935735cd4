"""Imports on a real Spark into a real database: every row once, whatever happens meanwhile."""

import json
import os
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.db import connection, transaction

from crontasks.bulk import driving
from crontasks.bulk.asking import preview
from crontasks.bulk.deciding import again, cancel
from crontasks.bulk.driving import drive
from crontasks.bulk.errors import BulkError
from integration.models import BulkRun, MessageError, ObjectStructure, Queue, StoredObject
from integration.store.configuration import snapshot
from integration.store.repository import DatabaseRepository
from integration.store.sessions import database_now
from spark_jobs.errors import JobError
from spark_jobs.imports import job as import_job
from spark_jobs.imports import storing
from tests.support.builders import a_queue
from tests.support.bulk import (
    COLUMNS,
    a_csv,
    an_asset_structure,
    an_import,
    driven,
    stages,
    stored,
)
from tests.support.flows import drain
from tests.support.kafka_world import Kafka
from tests.support.rows import a_held

pytestmark = [
    pytest.mark.servers,
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(500),
    pytest.mark.usefixtures("spark"),
]


def test_every_row_is_stored_or_a_failure_and_the_counts_balance(
    tmp_path: Path, queue: Queue
) -> None:
    wrong = a_csv(tmp_path / "assets.csv", 2_000, bad=20)

    run = driven(an_import(tmp_path / "assets.csv", queue))

    assert (run.problem, run.state) == (None, "DONE")
    assert run.counts == {"read": 2_000, "sent": 1_980, "rejected": 20, "skipped": 0}
    assert stored() == {f"A-{n}" for n in range(2_000)} - {f"A-{n}" for n in wrong}
    assert run.progress["done"] == run.progress["total"]
    assert stages(run) == []
    rejects = MessageError.objects.filter(queue=queue)
    assert {json.loads(bytes(row.payload or b""))["weight"] for row in rejects} == wrong
    number = min(wrong)
    first = rejects.get(payload=f'{{"assetnum":"A-{number}","weight":{number}}}'.encode())
    assert (first.state, first.code) == ("HOLD", "MISSING_VALUE")
    assert f"Line {number + 2} of {tmp_path}/assets.csv" in first.detail
    assert f"A-{number},,{number}" in first.detail


def test_a_run_that_is_driven_again_does_nothing_twice(tmp_path: Path, queue: Queue) -> None:
    a_csv(tmp_path / "assets.csv", 500, bad=5)
    run = driven(an_import(tmp_path / "assets.csv", queue))
    BulkRun.objects.update(state="ASKED")

    repeated = driven(run)

    assert repeated.counts == run.counts
    assert stages(run) == []
    assert set(StoredObject.objects.values_list("version", flat=True)) == {1}
    assert MessageError.objects.count() == 5
    assert drive(run.pk, owner="another") is None, "what has ended is nobody's to run"


def test_what_waits_for_an_imported_object_is_due_then(tmp_path: Path, servers: Any) -> None:
    broker, structure = Kafka(servers.kafka_bootstrap), an_asset_structure(name="asset")
    queue = a_queue(broker, max_retries=5, retry_delay_seconds=600, stay_seconds=0.0)
    bodies = [{"n": n, "do": "needs", "object": f'["A-{n}","BEDFORD"]'} for n in (3, 99)]
    broker.send(queue.topic, bodies)
    drain(queue)
    a_csv(tmp_path / "assets.csv", 10)

    driven(an_import(tmp_path / "assets.csv", queue, structure=structure.name))

    due = MessageError.objects.filter(state="RETRY", not_before__lte=database_now())
    assert list(due.values_list("waits_key", flat=True)) == ['["A-3","BEDFORD"]']


def test_rejects_are_mended_and_released_like_any_message(tmp_path: Path, queue: Queue) -> None:
    a_csv(tmp_path / "assets.csv", 100, bad=3)
    driven(an_import(tmp_path / "assets.csv", queue))
    for row in MessageError.objects.all():
        body = {**json.loads(bytes(row.payload or b"")), "siteid": "BEDFORD"}
        row.edited_payload, row.state, row.version = json.dumps(body).encode(), "READY", 2
        row.save()

    drain(queue)

    assert set(MessageError.objects.values_list("state", flat=True)) == {"RESOLVED"}
    assert stored() == {f"A-{n}" for n in range(100)}


def test_rejects_stop_no_queue(tmp_path: Path, queue: Queue) -> None:
    a_csv(tmp_path / "assets.csv", 100, bad=3)
    driven(an_import(tmp_path / "assets.csv", queue))
    assert MessageError.objects.count() == 3
    a_held(queue, 7)

    assert DatabaseRepository(snapshot(queue.pk, worker="test")).open_errors() == 1


@pytest.mark.parametrize("duplicates", ["last", "reject"])
def test_more_rejects_than_anybody_looks_at_are_a_mistake(
    tmp_path: Path, queue: Queue, monkeypatch: pytest.MonkeyPatch, duplicates: str
) -> None:
    is_by_key = duplicates == "reject"
    a_csv(tmp_path / "a.csv", 100, bad=0 if is_by_key else 6)
    a_csv(tmp_path / "b.csv", 6 if is_by_key else 1)
    run = an_import(tmp_path, queue, duplicates=duplicates)
    with monkeypatch.context() as patched:
        patched.setattr(storing, "MOST_REJECTS", 5)
        failed = driven(run)
    assert (failed.state, failed.problem[0]) == ("FAILED", "TOO_MANY_REJECTS")
    code = "DUPLICATE_ROW" if is_by_key else "MISSING_VALUE"
    assert f"{code} 6 (first on line" in failed.problem[1]
    assert (MessageError.objects.count(), stored(), bool(stages(run))) == (0, set(), True)

    assert again(run.pk)
    assert driven(run).counts["rejected"] == 6, "nothing that was read is lost"


def test_what_was_stored_later_stays(tmp_path: Path, queue: Queue) -> None:
    a_csv(tmp_path / "assets.csv", 10)
    run = an_import(tmp_path / "assets.csv", queue)
    (tmp_path / "later.csv").write_text("ASSETNUM,SITEID,WEIGHT\nA-3,BEDFORD,999\n")
    driven(an_import(tmp_path / "later.csv", queue))

    ended = driven(run)

    assert ended.counts == {"read": 10, "sent": 9, "rejected": 0, "skipped": 1}
    newest = StoredObject.objects.get(key='["A-3","BEDFORD"]')
    assert newest.document == {"assetnum": "A-3", "siteid": "BEDFORD", "weight": 999}


@pytest.mark.parametrize(
    ("rule", "weight", "counts"),
    [
        ("last", 3, {"read": 3, "sent": 1, "rejected": 0, "skipped": 2}),
        ("first", 1, {"read": 3, "sent": 1, "rejected": 0, "skipped": 2}),
        ("reject", 1, {"read": 3, "sent": 1, "rejected": 2, "skipped": 0}),
    ],
)
def test_of_rows_with_one_key_the_rule_says_which_counts(
    tmp_path: Path, queue: Queue, rule: str, weight: int, counts: dict[str, int]
) -> None:
    (tmp_path / "twice.csv").write_text("ASSETNUM,SITEID,WEIGHT\nA,B,1\nA,B,2\nA,B,3\n")
    run = driven(an_import(tmp_path / "twice.csv", queue, duplicates=rule))
    assert run.counts == counts
    assert StoredObject.objects.get().document["weight"] == weight
    codes = set(MessageError.objects.values_list("code", flat=True))
    assert codes == ({"DUPLICATE_ROW"} if rule == "reject" else set())


@pytest.mark.parametrize("stage", ["plan", "stage"])
def test_a_cancelled_run_leaves_nothing(
    stage: str, tmp_path: Path, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_csv(tmp_path / "assets.csv", 3_000)
    run = an_import(tmp_path / "assets.csv", queue)
    told = driving.RowTell.progress

    def and_cancel(self: driving.RowTell, progress: Any) -> None:
        told(self, progress)
        if progress.stage == stage:
            assert cancel(run.pk)

    monkeypatch.setattr(driving.RowTell, "progress", and_cancel)
    ended = driven(run)

    assert (ended.state, ended.plan != {}) == ("CANCELLED", stage == "stage")
    assert (StoredObject.objects.count(), stages(run)) == (0, [])
    monkeypatch.undo()
    assert again(run.pk)
    assert driven(run).counts["sent"] == 3_000


def test_a_database_that_refuses_half_way_leaves_all_to_the_next_try(
    tmp_path: Path, queue: Queue
) -> None:
    a_csv(tmp_path / "assets.csv", 300)
    run = an_import(tmp_path / "assets.csv", queue)
    with connection.cursor() as cursor:
        cursor.execute(
            "ALTER TABLE integration_storedobject ADD CONSTRAINT no_weight "
            "CHECK ((document->>'weight')::int < 250)"
        )
    failed = driven(run)
    assert failed.state == "FAILED"
    assert "no_weight" in failed.problem[1]
    assert StoredObject.objects.count() == 0

    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE integration_storedobject DROP CONSTRAINT no_weight")
    assert again(run.pk)
    assert driven(run).counts["sent"] == 300


def test_a_task_that_fails_twice_succeeds(tmp_path: Path, queue: Queue) -> None:
    """The first two tries meet a table that does not take their rows."""
    a_csv(tmp_path / "assets.csv", 300)
    marks = tmp_path / "tries"
    marks.mkdir()
    original = import_job.stage

    def failing(database: str, run: str, *rest: Any) -> Any:
        tries = len(list(marks.iterdir()))
        (marks / str(tries)).touch()
        if tries < 2:
            raise OSError("the disk is gone")
        return original(database, run, *rest)

    import_job.stage = failing
    try:
        run = driven(an_import(tmp_path / "assets.csv", queue))
    finally:
        import_job.stage = original
    assert (run.state, run.counts.get("sent")) == ("DONE", 300)
    assert len(list(marks.iterdir())) == 3


def test_what_is_wrong_with_the_source_is_told(tmp_path: Path, queue: Queue) -> None:
    (tmp_path / "other.csv").write_text("X,Y\n1,2\n")
    run = driven(an_import(tmp_path / "other.csv", queue))
    assert run.state == "FAILED"
    assert run.problem[0] == "UNKNOWN_COLUMN"
    missing = driven(an_import(tmp_path / "nothing.csv", queue))
    assert missing.problem[0] == "NO_SOURCE"
    with pytest.raises(BulkError) as told:
        an_import(tmp_path / "other.csv", queue, encoding="utf-16")
    assert told.value.job_code == "BAD_PARAMETERS"


def test_a_second_driver_finds_a_run_taken(tmp_path: Path, queue: Queue) -> None:
    a_csv(tmp_path / "assets.csv", 10)
    run = an_import(tmp_path / "assets.csv", queue)
    with transaction.atomic():
        BulkRun.objects.filter(pk=run.pk).update(state="RUNNING", lease_until="2999-01-01T00:00Z")
    assert drive(run.pk, owner="the second") is None
    BulkRun.objects.filter(pk=run.pk).update(lease_until="2000-01-01T00:00Z")
    assert driven(run).counts["sent"] == 10


def test_a_driver_that_lost_the_run_undoes_nothing(tmp_path: Path, queue: Queue) -> None:
    a_csv(tmp_path / "assets.csv", 10)
    run = an_import(tmp_path / "assets.csv", queue)
    BulkRun.objects.update(state="RUNNING", epoch=5)
    late = driving.RowTell(run.pk, 4)
    for act in (lambda: late.planned({"files": [], "ranges": []}), late.go_on):
        with pytest.raises(JobError) as told:
            act()
        assert told.value.code == "RUN_TAKEN"
    run.refresh_from_db()
    assert run.plan == {}


def test_a_file_that_changes_meanwhile_stops_the_run(
    tmp_path: Path, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_csv(tmp_path / "assets.csv", 300)
    run = an_import(tmp_path / "assets.csv", queue)
    told = driving.RowTell.progress

    def and_append(self: driving.RowTell, progress: Any) -> None:
        told(self, progress)
        if progress.stage == "stage":
            with (tmp_path / "assets.csv").open("a") as opened:
                opened.write("LATE,B,1\n")

    monkeypatch.setattr(driving.RowTell, "progress", and_append)
    ended = driven(run)
    assert ended.state == "FAILED"
    assert ended.problem[0] == "SOURCE_CHANGED"
    assert StoredObject.objects.count() == 0


def test_a_file_that_is_replaced_meanwhile_and_put_back_is_what_is_stored(
    tmp_path: Path, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "assets.csv"
    a_csv(file, 300)
    meant, facts = file.read_bytes(), file.stat()
    run = an_import(file, queue)
    told = driving.RowTell.progress

    def and_replace(self: driving.RowTell, progress: Any) -> None:
        told(self, progress)
        if progress.stage == "stage":
            a_csv(file, 300, first=1_000)

    monkeypatch.setattr(driving.RowTell, "progress", and_replace)
    assert driven(run).problem[0] == "SOURCE_CHANGED"
    monkeypatch.undo()
    file.write_bytes(meant)
    os.utime(file, ns=(facts.st_atime_ns, facts.st_mtime_ns))

    assert again(run.pk)
    assert driven(run).counts == {"read": 300, "sent": 300, "rejected": 0, "skipped": 0}
    assert stored() == {f"A-{n}" for n in range(300)}


def test_odd_signs_go_through_as_they_are(tmp_path: Path, queue: Queue) -> None:
    odd = 'tab\there "quoted" back\\slash \\N Müller €'
    (tmp_path / "odd.jsonl").write_text(
        json.dumps({"assetnum": odd, "siteid": "B"}, ensure_ascii=False)
        + "\n"
        + json.dumps({"assetnum": odd}, ensure_ascii=False)
        + "\n"
    )
    run = driven(an_import(tmp_path / "odd.jsonl", queue, format="jsonl", columns=""))
    assert run.counts == {"read": 2, "sent": 1, "rejected": 1, "skipped": 0}
    assert StoredObject.objects.get().document["assetnum"] == odd
    rejected = MessageError.objects.get()
    assert json.loads(bytes(rejected.payload or b""))["assetnum"] == odd
    assert "Müller €" in rejected.detail


def test_a_structure_with_other_keys_by_now_stops_the_run(
    tmp_path: Path, queue: Queue, structure: ObjectStructure
) -> None:
    a_csv(tmp_path / "assets.csv", 10)
    run = an_import(tmp_path / "assets.csv", queue)
    structure.key_paths = ["$.assetnum"]
    structure.save()
    ended = driven(run)
    assert ended.problem[0] == "STRUCTURE_CHANGED"
    assert StoredObject.objects.count() == 0


def test_a_look_first_writes_nothing(tmp_path: Path, queue: Queue) -> None:
    a_csv(tmp_path / "assets.csv", 100, bad=1)
    job_request = {
        "source": str(tmp_path),
        "format": "csv",
        "structure": "ASSET",
        "rejects_queue": queue.name,
        "columns": COLUMNS,
    }
    found = preview("import", job_request)
    assert (found.rows, len(found.samples)) == (100, 20)
    assert not BulkRun.objects.exists()
    with pytest.raises(BulkError) as told:
        preview("import", {**job_request, "structure": "NONE"})
    assert told.value.job_code == "UNKNOWN_STRUCTURE"


def test_a_commit_whose_answer_is_lost_is_done_with_all_that_is_told_of_it(
    tmp_path: Path, queue: Queue
) -> None:
    a_csv(tmp_path / "assets.csv", 100, bad=1)
    original = import_job.settle

    def unheard(*of_the_run: Any) -> Any:
        original(*of_the_run)
        raise psycopg.OperationalError("the connection is lost")

    import_job.settle = unheard
    try:
        run = driven(an_import(tmp_path / "assets.csv", queue))
    finally:
        import_job.settle = original

    assert (run.state, run.problem) == ("DONE", None)
    assert run.counts == {"read": 100, "sent": 99, "rejected": 1, "skipped": 0}
    size = (tmp_path / "assets.csv").stat().st_size
    assert run.facts == {"bytes": size, "files": 1, "ranges": 1}


def test_what_nobody_foresaw_ends_the_run_and_does_not_hold_it(
    tmp_path: Path, queue: Queue
) -> None:
    run = an_import(tmp_path / "assets.csv", queue)
    # As no job request could have made it.
    BulkRun.objects.update(parameters={**run.parameters, "provider": "no number"})

    ended = driven(run)

    assert (ended.state, ended.lease_until) == ("FAILED", None)
    assert ended.problem[0] == "JOB_FAILED"
    assert "no number" in ended.problem[1]
