"""Imports of every format, of bad files, and under a database that refuses: rows are exact."""

import csv
import json
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from django.db import connection, connections

from crontasks.bulk import driving
from crontasks.bulk.asking import arguments_of, preview
from crontasks.bulk.deciding import again
from crontasks.bulk.errors import BulkError
from integration.actions import failures
from integration.models import BulkRun, MessageError, ObjectStructure, Queue, StoredObject
from spark_jobs.contract import JobState, Report, Tell
from spark_jobs.running import run as run_job
from tests.support.builders import a_queue
from tests.support.bulk import (
    a_csv,
    an_asset_structure,
    an_import,
    driven,
    stages,
    stored,
    storing,
)
from tests.support.flows import drain
from tests.support.kafka_world import Kafka
from tests.support.parquet import a_parquet

pytestmark = [
    pytest.mark.servers,
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(500),
    pytest.mark.usefixtures("spark"),
]

TERMINATE = """
CREATE FUNCTION terminate_once() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF nextval('terminations') = 1 THEN PERFORM pg_terminate_backend(pg_backend_pid()); END IF;
  RETURN NEW;
END $$
"""


@pytest.fixture
def structure() -> ObjectStructure:
    return an_asset_structure(version_path="$.seen")


@pytest.fixture
def terminating() -> Iterator[Callable[[str], None]]:
    """Ends the session that inserts into a table, once."""
    tables: list[str] = []

    def end_at(table: str) -> None:
        tables.append(table)
        with connection.cursor() as cursor:
            cursor.execute("CREATE SEQUENCE terminations")
            cursor.execute(TERMINATE)
            cursor.execute(
                f"CREATE TRIGGER terminating BEFORE INSERT ON {table} "
                "FOR EACH ROW EXECUTE FUNCTION terminate_once()"
            )

    yield end_at
    with connection.cursor() as cursor:
        for table in tables:
            cursor.execute(f"DROP TRIGGER IF EXISTS terminating ON {table}")
        cursor.execute("DROP FUNCTION IF EXISTS terminate_once; DROP SEQUENCE terminations")


def test_xml_is_read_up_to_where_it_breaks(tmp_path: Path, queue: Queue) -> None:
    record = "<ASSET><NUM>A-{}</NUM><LOCATION><SITE>B</SITE></LOCATION><W>{}</W></ASSET>\n"
    whole = "".join(record.format(n, n) for n in range(500))
    (tmp_path / "a.xml").write_text(f"<ASSETS>\n{whole}</ASSETS>")
    (tmp_path / "b.xml").write_text(f"<ASSETS>\n{record.format(500, 'heavy')}<ASSET><NUM>A</ASSET>")
    columns = "NUM=assetnum!\nLOCATION/SITE=siteid!\nW=weight:integer"

    run = driven(an_import(tmp_path, queue, format="xml", record="ASSET", columns=columns))

    assert run.counts == {"read": 502, "sent": 500, "rejected": 2, "skipped": 0}, run.problem
    assert stored() == {f"A-{n}" for n in range(500)}
    codes = dict(MessageError.objects.values_list("code", "detail"))
    assert codes["WRONG_KIND"].startswith(f"Line 2 of {tmp_path}/b.xml\n<ASSET><NUM>A-500</NUM>")
    assert codes["BAD_XML"] == f"Line 3 of {tmp_path}/b.xml\n<ASSET><NUM>A</ASSET>"


def test_records_of_xml_are_stored_as_they_are(tmp_path: Path, servers: Any) -> None:
    structure = ObjectStructure.objects.create(name="XASSET", key_paths=["/ASSET/NUM"])
    queue = storing(a_queue(Kafka(servers.kafka_bootstrap)), structure)
    (tmp_path / "a.xml").write_text("<A><ASSET><NUM>1</NUM></ASSET><ASSET><X>é\\t</X></ASSET></A>")

    run = driven(
        an_import(tmp_path, queue, format="xml", record="ASSET", structure="XASSET", columns="")
    )

    assert run.counts == {"read": 2, "sent": 1, "rejected": 1, "skipped": 0}, run.problem
    found = StoredObject.objects.get()
    assert (found.key, found.document, found.xml) == ("1", None, "<ASSET><NUM>1</NUM></ASSET>")
    reject = MessageError.objects.get()
    assert bytes(reject.payload or b"").decode() == "<ASSET><X>é\\t</X></ASSET>"


def test_a_message_that_deletes_deletes_here_too(tmp_path: Path, servers: Any) -> None:
    structure = ObjectStructure.objects.create(
        name="XASSET", key_paths=["//NUM"], tombstone="delete"
    )
    queue = storing(a_queue(Kafka(servers.kafka_bootstrap)), structure)
    message = '<SyncAS><ASSet><AS action="{}"><NUM>{}</NUM></AS></ASSet></SyncAS>'.format
    deletion = message("Delete", 1)
    (tmp_path / "a.xml").write_text(f"<A>{message('Add', 1)}{message('Add', 2)}</A>")
    wanted = {"format": "xml", "record": "SyncAS", "structure": "XASSET", "columns": ""}
    assert driven(an_import(tmp_path, queue, **wanted)).counts["sent"] == 2
    (tmp_path / "a.xml").write_text(f"<A>{deletion}{message('Delete', 2)}{deletion}</A>")

    run = driven(an_import(tmp_path, queue, duplicates="reject", **wanted))

    assert run.counts == {"read": 3, "sent": 2, "rejected": 1, "skipped": 0}, run.problem
    left = StoredObject.objects.order_by("key").values_list("key", "document", "xml", "version")
    assert list(left) == [("1", None, "", 2), ("2", None, "", 2)]
    assert bytes(MessageError.objects.get().payload or b"") == deletion.encode()


def test_parquet_keeps_its_values_to_the_last_digit(tmp_path: Path, queue: Queue) -> None:
    count = 300
    for number in range(2):
        a_parquet(
            tmp_path / f"{number}.parquet",
            rows=100,
            assetnum=[f"A-{number}-{n}" for n in range(count)],
            siteid=[None if n == 7 else "B" for n in range(count)],
            price=pa.array([Decimal(n) / 100 for n in range(count)], pa.decimal128(30, 2)),
            ratio=[n * 1e7 for n in range(count)],
            seen=pa.array([datetime(2026, 1, 31, tzinfo=UTC)] * count, pa.timestamp("us", "UTC")),
            parts=[[{"n": n, "of": None}] for n in range(count)],
        )

    run = driven(an_import(tmp_path, queue, format="parquet", columns=""))

    assert run.counts == {"read": 600, "sent": 598, "rejected": 2, "skipped": 0}, run.problem
    assert len(run.plan["ranges"]) == 2
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT document::text, sort_version FROM integration_storedobject WHERE key = %s",
            ['["A-1-150","B"]'],
        )
        text, version = cursor.fetchone()
    document = json.loads(text, parse_int=str, parse_float=str)
    assert document == {
        "assetnum": "A-1-150",
        "siteid": "B",
        "price": "1.50",
        "ratio": "1500000000",
        "seen": "2026-01-31T00:00:00+00:00",
        "parts": [{"n": "150", "of": None}],
    }
    assert version == int(datetime(2026, 1, 31, tzinfo=UTC).timestamp())
    reject = MessageError.objects.order_by("arrival_index")[0]
    assert reject.code == "NO_KEY"
    assert reject.detail.startswith(f"Row 8 of {tmp_path}/0.parquet\n{{")


def test_files_as_partners_write_them(tmp_path: Path, queue: Queue) -> None:
    """A mark of byte order, line ends in quotes, a wrong count of columns, a line of 50 MB."""
    with (tmp_path / "a.csv").open("w", encoding="utf-8-sig", newline="") as out:
        writer = csv.writer(out)
        writer.writerows([("ASSETNUM", "SITEID", "WEIGHT"), ("A-1\nline", "Bé", 1), ("A-2", "B")])
    with (tmp_path / "b.csv").open("w", newline="") as out:
        out.write("ASSETNUM,SITEID,WEIGHT\nA-3,B,1\nA-4," + "x" * 50_000_000 + ",1\nA-5,B,1\n")
    latin = "ASSETNUM,SITEID,WEIGHT\nMüller,B,1\nA-6,B,1\n".encode("latin-1")
    (tmp_path / "c.csv").write_bytes(latin)

    run = driven(an_import(tmp_path, queue))

    assert run.counts == {"read": 7, "sent": 4, "rejected": 3, "skipped": 0}, run.problem
    assert stored() == {"A-1\nline", "A-3", "A-5", "A-6"}
    rejects = {row.code: row for row in MessageError.objects.all()}
    assert set(rejects) == {"COLUMN_COUNT", "ROW_TOO_LONG", "BAD_ENCODING"}
    assert rejects["COLUMN_COUNT"].detail == f"Line 4 of {tmp_path}/a.csv\nA-2,B"
    assert len(bytes(rejects["ROW_TOO_LONG"].payload or b"")) == 2**20
    assert bytes(rejects["BAD_ENCODING"].payload or b"") == b"M\xfcller,B,1"
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).unlink()
    run = driven(an_import(tmp_path, queue, encoding="latin-1"))
    assert run.counts["sent"] == 2
    assert "Müller" in stored()


def test_the_newest_of_a_key_is_told_by_its_version(tmp_path: Path, queue: Queue) -> None:
    rows = ["A,B,1,2026-01-02", "A,B,2,2026-01-03", "A,B,3,", "A,B,4,2026-01-01", "C,B,5,"]
    (tmp_path / "a.csv").write_text("ASSETNUM,SITEID,WEIGHT,SEEN\n" + "\n".join([*rows, "C,B,6,"]))
    columns = "ASSETNUM=assetnum\nSITEID=siteid\nWEIGHT=weight:integer\nSEEN=seen"

    run = driven(an_import(tmp_path, queue, columns=columns, duplicates="newest"))

    assert run.counts == {"read": 6, "sent": 2, "rejected": 0, "skipped": 4}, run.problem
    weights = {
        key: doc["weight"] for key, doc in StoredObject.objects.values_list("key", "document")
    }
    assert weights == {'["A","B"]': 2, '["C","B"]': 6}


def test_a_rejected_duplicate_has_its_file_and_line(tmp_path: Path, queue: Queue) -> None:
    a_csv(tmp_path / "a.csv", 10)
    (tmp_path / "b.csv").write_text("ASSETNUM,SITEID,WEIGHT\nA-3,BEDFORD,999\n")
    run = driven(an_import(tmp_path, queue, duplicates="reject"))
    assert run.counts == {"read": 11, "sent": 10, "rejected": 1, "skipped": 0}, run.problem
    reject = MessageError.objects.get()
    assert reject.detail == f"Line 2 of {tmp_path}/b.csv\n"
    assert json.loads(bytes(reject.payload or b""))["weight"] == 999


def test_a_reject_is_released_without_a_confirmation_and_stands_in_nobodys_way(
    tmp_path: Path, queue: Queue
) -> None:
    (tmp_path / "a.csv").write_text("ASSETNUM,SITEID,WEIGHT\nA-1,,1\nA-2,B,1\n")
    driven(an_import(tmp_path, queue))
    Kafka(queue.provider.bootstrap_servers).send(queue.topic, [{"assetnum": "A-9", "siteid": "B"}])
    drain(queue)
    assert stored() == {"A-2", "A-9"}
    row = MessageError.objects.get()
    body = b'{"assetnum": "A-1", "siteid": "B"}'
    version = failures.edit(row.pk, version=row.version, actor="a", payload=body)
    failures.release(row.pk, version=version, actor="a")
    drain(queue)
    row.refresh_from_db()
    assert (row.state, row.late) == ("RESOLVED", False)
    assert stored() == {"A-1", "A-2", "A-9"}


def test_a_sequential_queue_for_rejects_is_refused(tmp_path: Path, servers: Any) -> None:
    an_asset_structure()
    strict = a_queue(Kafka(servers.kafka_bootstrap), kind="sequential")
    with pytest.raises(BulkError) as told:
        an_import(tmp_path, strict)
    assert told.value.job_code == "REJECTS_ELSEWHERE"
    assert not BulkRun.objects.exists()


def test_a_field_that_does_not_exist_is_told_by_a_look_already(
    tmp_path: Path, queue: Queue, structure: ObjectStructure
) -> None:
    structure.json_schema = {"properties": {"assetnum": {}}, "additionalProperties": False}
    structure.save()
    (tmp_path / "a.csv").write_text("ASSETNUM,SITEID\nA,B\n")
    job_request = {
        "source": str(tmp_path),
        "structure": "ASSET",
        "rejects_queue": queue.name,
        "columns": "ASSETNUM=assetnum\nSITEID=siteid",
    }
    with pytest.raises(BulkError) as told:
        preview("import", job_request)
    assert told.value.job_code == "UNKNOWN_FIELD"


@pytest.mark.parametrize("wrong", [{"structure": ""}, {"queue": "other"}])
def test_rows_go_to_one_place_only(tmp_path: Path, queue: Queue, wrong: dict[str, str]) -> None:
    with pytest.raises(BulkError) as told:
        an_import(tmp_path, queue, **wrong)
    assert told.value.job_code == "BAD_PARAMETERS"


def test_an_empty_folder_is_told(tmp_path: Path, queue: Queue) -> None:
    ended = driven(an_import(tmp_path, queue))
    assert (ended.state, ended.problem[0]) == ("FAILED", "NO_SOURCE")


@pytest.mark.parametrize("table", ["integration_storedobject", "integration_messageerror"])
def test_a_session_that_ends_in_the_commit_leaves_all_to_the_next_try(
    table: str, tmp_path: Path, queue: Queue, terminating: Callable[[str], None]
) -> None:
    a_csv(tmp_path / "a.csv", 300, bad=3)
    run = an_import(tmp_path, queue)
    terminating(table)
    failed = driven(run)
    assert failed.state == "FAILED"
    assert (StoredObject.objects.count(), MessageError.objects.count()) == (0, 0)
    assert stages(run) != []
    assert again(run.pk)
    assert driven(run).counts == {"read": 300, "sent": 297, "rejected": 3, "skipped": 0}
    assert set(StoredObject.objects.values_list("version", flat=True)) == {1}


def test_a_session_that_ends_while_rows_are_staged_costs_a_try_of_its_task(
    tmp_path: Path, queue: Queue, terminating: Callable[[str], None]
) -> None:
    for number in range(3):
        a_csv(tmp_path / f"{number}.csv", 200, first=number * 200)
    run = an_import(tmp_path, queue)
    told = driving.RowTell.planned
    arguments_of(run)
    with pytest.MonkeyPatch.context() as patch:
        # The stage's tables are made behind the plan: this is the moment before.
        def and_make(self: driving.RowTell, plan: Any) -> None:
            told(self, plan)
            with connection.cursor() as cursor:
                cursor.execute(
                    f"CREATE UNLOGGED TABLE bulk_{run.pk.hex}_ranges (number int PRIMARY KEY, "
                    "file text NOT NULL, read bigint NOT NULL, good bigint NOT NULL, "
                    "bad bigint NOT NULL, sent bigint)"
                )
            terminating(f"bulk_{run.pk.hex}_ranges")

        patch.setattr(driving.RowTell, "planned", and_make)
        ended = driven(run)
    assert ended.counts == {"read": 600, "sent": 600, "rejected": 0, "skipped": 0}, ended.problem
    assert StoredObject.objects.count() == 600


def test_two_drivers_of_one_run_store_everything_once(
    tmp_path: Path, queue: Queue, spark: Any
) -> None:
    for number in range(4):
        a_csv(tmp_path / f"{number}.csv", 1_000, bad=5, first=number * 1_000)
    run = an_import(tmp_path, queue)
    arguments = arguments_of(run)
    reports: list[Report] = []

    def drive() -> None:
        reports.append(run_job(spark, arguments, Tell()))
        connections.close_all()

    threads = [threading.Thread(target=drive) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    done = [report for report in reports if report.state is JobState.DONE]
    assert done, reports
    assert {(one.read, one.sent, one.rejected) for one in done} == {(4_000, 3_980, 20)}
    assert StoredObject.objects.filter(version=1).count() == 3_980 == StoredObject.objects.count()
    assert MessageError.objects.count() == 20


def test_a_driver_that_lost_its_run_applies_nothing(
    tmp_path: Path, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was only slow: another one took the run while the last rows were staged."""
    a_csv(tmp_path / "a.csv", 100, bad=1)
    run = an_import(tmp_path, queue)
    told = driving.RowTell.go_on

    def and_lose(self: driving.RowTell) -> None:
        told(self)
        if stages(run):
            BulkRun.objects.filter(pk=run.pk).update(epoch=99)

    monkeypatch.setattr(driving.RowTell, "go_on", and_lose)
    driven(run)
    run.refresh_from_db()
    assert (run.applied, run.state) == (False, "RUNNING"), "it is the other one's"
    assert (StoredObject.objects.count(), MessageError.objects.count()) == (0, 0)
    assert stages(run) != [], "the other one goes on with it"
