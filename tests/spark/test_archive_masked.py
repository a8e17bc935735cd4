"""Parquet of masked rows on a real Spark: a planted secret is in no value of archives, exports."""

import io
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from django.utils import timezone

from bench.object_storage import BUCKET, ObjectStorage
from crontasks.bulk.asking import ask
from integration.masking.mask import HIDDEN
from integration.models import (
    BulkRun,
    ErrorAttempt,
    ErrorChange,
    MaskingRule,
    MessageError,
    MessageTrack,
    Queue,
)
from integration.store import track_days
from spark_jobs.storage import DISK, Storage
from tests.support.archives import DAY, a_day_of_tracking, counts, fill, some_failures, when
from tests.support.bulk import driven, shared_session
from tests.support.exports import a_plain_queue

pytestmark = [
    pytest.mark.servers,
    pytest.mark.django_db(transaction=True),
    # The first one also waits for the servers and for Spark.
    pytest.mark.timeout(600),
]
SECRET = "4000-1234-9999"
RECORD = json.dumps({"order": 1, "card": SECRET}).encode()
PLACES = ("disk", "objects")


@pytest.fixture(scope="module", autouse=True)
def spark() -> Any:
    return shared_session()


@pytest.fixture
def queue(servers: Any, settings: Any, tmp_path: Path) -> Iterator[Queue]:
    settings.SLUICE_BULK_ROOT = tmp_path
    MaskingRule.objects.create(name="cards", part="payload", path="$.card")
    yield a_plain_queue("orders")
    track_days.drop_before(timezone.now() - 5 * DAY)


def archived(run: BulkRun, storage: Storage) -> Iterator[tuple[dict[str, Any], dict[Any, Any]]]:
    """Every row that a run has archived, with what its file says of itself."""
    folder = f"{str(run.parameters['folder']).rstrip('/')}/{run.parameters['kind']}"
    for name, _ in storage.find(f"{folder}/day=*/*.parquet"):
        with storage.open(name) as opened:
            # Threads of Arrow would be torn apart by the forks of tests that come later.
            file = pq.ParquetFile(io.BytesIO(opened.read()))
        for row in file.read(use_threads=False).to_pylist():
            yield row, file.schema_arrow.metadata or {}


def is_planted(row: dict[str, Any]) -> bool:
    """Return whether the secret is in a row, whatever keeps it."""
    values = [value for value in row.values() if isinstance(value, str | bytes)]
    texts = [value.encode() if isinstance(value, str) else value for value in values]
    signs = (SECRET.encode(), SECRET.encode().hex().encode())
    return any(sign in text for text in texts for sign in signs)


def planted_failures(queue: Queue, number: int) -> list[MessageError]:
    rows = some_failures(
        queue, number, text=f"No card {SECRET}", detail=SECRET, headers=[["card", SECRET]]
    )
    MessageError.objects.update(
        payload=RECORD, edited_payload=RECORD, key=SECRET.encode(), fingerprint="0123456789abcdef"
    )
    ErrorAttempt.objects.update(text=f"No card {SECRET}")
    ErrorChange.objects.update(payload_before=RECORD, reason=f"it is {SECRET}")
    return rows


@pytest.mark.parametrize("place", PLACES)
def test_failures_are_archived_without_it_and_go(
    queue: Queue,
    object_storage: ObjectStorage,
    settings: Any,
    monkeypatch: pytest.MonkeyPatch,
    place: str,
) -> None:
    settings.SLUICE_S3 = object_storage.settings
    to = f"s3://{BUCKET}/masked/" if place == "objects" else ""
    storage = Storage.of(object_storage.settings) if to else DISK
    rows = planted_failures(queue, 12)

    def change() -> None:
        MessageError.objects.filter(pk=rows[0].pk).update(code="ANOTHER")

    if to:
        # Of a disk nobody is told of the moment between.
        when(monkeypatch, "place", change)
    run = driven(ask("archive", {"kind": "failures", "masked": True, "to": to}, actor="tester"))

    stays = 1 if to else 0
    assert (run.problem, run.state, run.counts) == (None, "DONE", counts(12, skipped=stays))
    assert MessageError.objects.count() == stays
    kept = list(archived(run, storage))
    assert len(kept) == 12
    assert not any(is_planted(row) for row, _ in kept)
    for row, told in kept:
        assert json.loads(row["payload"]) == {"order": 1, "card": "⟦masked 1⟧"}
        assert (row["code"], told[b"sluice.masked"]) == ("X", b"true")
        assert row["fingerprint"] == HIDDEN, "by it a guess at the text could be tried"
        assert json.loads(row["errorattempt"])[0]["number"] == 1


def test_a_day_of_tracking_is_archived_without_it_and_dropped_whole(queue: Queue) -> None:
    day = a_day_of_tracking(queue, 40, 30)
    fill(queue, day - 7 * DAY, 5)
    MessageTrack.objects.update(payload=zlib.compress(RECORD), key=SECRET, search_a=SECRET)
    MessageTrack.objects.filter(offset=1).update(payload=b"no such compression")

    run = driven(ask("archive", {"kind": "messages", "masked": True}, actor="tester"))

    assert (run.problem, run.state, run.counts) == (None, "DONE", counts(35))
    assert MessageTrack.objects.count() == 0
    kept = [{**row, "payload": zlib.decompress(row["payload"])} for row, _ in archived(run, DISK)]
    assert len(kept) == 35
    assert not any(is_planted(row) for row in kept)
    assert sum(row["payload"] == "⟦masked⟧".encode() for row in kept) == 2


def test_without_the_choice_it_is_there(queue: Queue) -> None:
    """So that the search would find it."""
    planted_failures(queue, 2)
    run = driven(ask("archive", {"kind": "failures"}, actor="tester"))
    assert [is_planted(row) for row, _ in archived(run, DISK)] == [True, True]


def test_an_export_in_parquet_has_it_for_nobody_who_gives_no_reason(
    queue: Queue, object_storage: ObjectStorage, settings: Any
) -> None:
    settings.SLUICE_S3 = object_storage.settings
    a_day_of_tracking(queue, 4, 6)
    MessageTrack.objects.update(payload=zlib.compress(RECORD), key="4711", search_a=SECRET)
    said = {"what": "messages", "format": "parquet", "columns": "of=payload\na=search_a"}
    found = []
    for more in ({}, {"unmasked": True}):
        to = f"s3://{BUCKET}/rows-{len(more)}/"
        run = driven(ask("export", {**said, **more, "to": to}, actor="tester", reason="an audit"))
        assert (run.problem, run.state) == (None, "DONE")
        files = Storage.of(object_storage.settings).find(run.facts["folder"])
        contents = [object_storage.get(name) for name, _ in files]
        tables = [pq.ParquetFile(io.BytesIO(c)).read(use_threads=False) for c in contents]
        found.append([is_planted(row) for table in tables for row in table.to_pylist()])
    assert found == [[False] * 6, [True] * 6]
