"""Archives in an object storage on a real Spark: rows go once their objects are proven."""

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import pyarrow.parquet as pq
import pytest
from django.utils import timezone

from bench.object_storage import BUCKET, ObjectStorage
from crontasks.bulk import asking
from crontasks.bulk.asking import Asker, ask
from crontasks.bulk.catalogue import CATALOGUE
from crontasks.bulk.deciding import again, give_up
from crontasks.bulk.errors import BulkError
from integration.actions.configuration import Author
from integration.models import BulkRun, MessageError, MessageTrack, Queue
from integration.store import track_days
from spark_jobs.archive import job
from spark_jobs.archive.object_shelf import ObjectShelf
from spark_jobs.storage import Storage
from tests.support.archives import (
    DAY,
    DAYS,
    a_day_of_tracking,
    counts,
    fill,
    some_failures,
    when,
)
from tests.support.bulk import driven, shared_session
from tests.support.exports import a_plain_queue

pytestmark = [
    pytest.mark.servers,
    pytest.mark.django_db(transaction=True),
    # The first one also waits for the servers and for Spark.
    pytest.mark.timeout(600),
]
HIDDEN: Final = "."


@pytest.fixture(scope="module", autouse=True)
def spark() -> Any:
    return shared_session()


@pytest.fixture
def queue(servers: Any) -> Iterator[Queue]:
    yield a_plain_queue("orders")
    track_days.drop_before(timezone.now() - 5 * DAY)


@pytest.fixture
def storage(object_storage: ObjectStorage, settings: Any) -> Storage:
    """Of an installation whose machines share no folder."""
    settings.SLUICE_S3 = object_storage.settings
    settings.SLUICE_BULK_ROOT = None
    return Storage.of(object_storage.settings)


def an_archive(kind: str, place: str) -> BulkRun:
    said = {"kind": kind, "older_than_days": 30, "to": f"s3a://{BUCKET}/{place}"}
    return ask("archive", said, actor="tester")


def archived(storage: Storage, run: BulkRun) -> list[dict[str, Any]]:
    """Every row of the archive of a kind."""
    folder = f"{run.parameters['folder']}{run.parameters['kind']}/day=*/*.parquet"
    # Threads of Arrow would be torn apart by the forks of tests that come later.
    files = [pq.ParquetFile(io.BytesIO(content(storage, name))) for name, _ in storage.find(folder)]
    return [row for file in files for row in file.read(use_threads=False).to_pylist()]


def content(storage: Storage, name: str) -> bytes:
    with storage.open(name) as file:
        return file.read()


def inside(storage: Storage, run: BulkRun, folder: str = "") -> set[str]:
    return set(storage.inside(f"{run.parameters['folder']}{run.parameters['kind']}/{folder}"))


def hidden_in(storage: Storage, run: BulkRun) -> list[str]:
    return [name for name in inside(storage, run) if name.startswith(HIDDEN)]


def test_closed_failures_go_into_objects_by_the_day(
    queue: Queue, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = some_failures(queue, 40)
    some_failures(queue, 3, days=5)

    def change() -> None:
        MessageError.objects.filter(pk=rows[1].pk).update(text="another")

    when(monkeypatch, "place", change)
    run = driven(an_archive("failures", "closed"))

    assert (run.problem, run.state, run.counts) == (None, "DONE", counts(40, skipped=1))
    assert run.facts["folder"] == f"s3://{BUCKET}/closed/failures/"
    assert (run.facts["files"], run.facts["days"]) == (DAYS, DAYS)
    assert MessageError.objects.count() == 3 + 1, "what changed meanwhile stays"
    kept = {row["id"]: row for row in archived(storage, run)}
    assert set(kept) == {str(row.pk) for row in rows}
    first = kept[str(rows[0].pk)]
    assert (first["payload"], first["closed_at"]) == (rows[0].payload, rows[0].closed_at)
    assert json.loads(first["errorchange"])[0]["payload_before"] == "\\x00ff"
    assert not hidden_in(storage, run)
    assert inside(storage, run, "_pending") - {""} == set()
    [name] = inside(storage, run, "_manifests")
    told = content(storage, f"{run.facts['folder']}_manifests/{name}")
    assert sum(file["rows"] for file in json.loads(told)["files"]) == 40


def test_days_of_tracking_and_what_lies_in_none_go_into_objects(
    queue: Queue, storage: Storage
) -> None:
    oldest = a_day_of_tracking(queue, 40, 300)
    for days in range(10):
        fill(queue, oldest - (7 + days) * DAY, 4)
    fill(queue, timezone.now(), 6)

    run = driven(an_archive("messages", "tracked"))

    assert (run.problem, run.state, run.counts) == (None, "DONE", counts(340))
    assert MessageTrack.objects.count() == 6
    assert len({row["id"] for row in archived(storage, run)}) == 340
    assert run.facts["days"] == 11


def dies(*_: object) -> None:
    raise OSError("the driver's machine is in trouble")


@pytest.mark.parametrize(
    ("where", "step"), [(ObjectShelf, "seal"), (ObjectShelf, "place"), (job, "drop")]
)
def test_a_driver_that_dies_drops_nothing_and_another_goes_on(
    queue: Queue, storage: Storage, monkeypatch: pytest.MonkeyPatch, where: Any, step: str
) -> None:
    some_failures(queue, 20)
    run = an_archive("failures", f"died-at-{step}")
    with monkeypatch.context() as patch:
        patch.setattr(where, step, dies)
        assert driven(run).state == "FAILED"
    assert MessageError.objects.count() == 20
    assert (archived(storage, run) == []) == (step != "drop")
    assert again(run.pk)

    ended = driven(run)

    assert (ended.problem, ended.state, ended.counts) == (None, "DONE", counts(20))
    assert len(archived(storage, ended)) == 20
    assert MessageError.objects.count() == 0
    assert not hidden_in(storage, ended)


def test_two_installations_leave_each_other_s_files_alone(
    queue: Queue, storage: Storage, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """South does not wait for what north has pending, and removes none of its hidden folders."""
    hidden: set[str] = set()

    def seal(self: ObjectShelf, part: int, manifest: Any) -> None:
        hidden.add(manifest["work"])
        monkeypatch.undo()
        self.seal(part, manifest)
        dies()

    settings.SLUICE_DEPLOYMENT = "north"
    some_failures(queue, 4)
    run = an_archive("failures", "shared")
    monkeypatch.setattr(ObjectShelf, "seal", seal)
    run = driven(run)
    assert run.state == "FAILED"
    [name] = hidden
    unfinished = name.replace(str(run.pk), str(uuid4()))
    folder = f"{run.parameters['folder']}failures/"
    of_another = unfinished.replace("-", "-2-", 1)
    for left in (unfinished, of_another):
        storage.write(f"{folder}{left}/day=2026-01-31/left", b"of a driver that died")

    settings.SLUICE_DEPLOYMENT = "south"
    waiting = driven(an_archive("failures", "shared"))
    assert (waiting.problem or [""])[0] == "ARCHIVE_UNFINISHED", "it has north's database"
    BulkRun.objects.filter(pk__in=[waiting.pk, run.pk]).delete()
    assert driven(an_archive("failures", "shared")).state == "DONE"
    assert {name, unfinished} <= inside(storage, run)

    settings.SLUICE_DEPLOYMENT = "north"
    run.save(force_insert=True)
    assert again(run.pk)
    assert driven(run).counts == counts(4)
    assert driven(an_archive("failures", "shared")).state == "DONE"
    assert hidden_in(storage, run) == [of_another]


def test_what_is_unfinished_at_another_place_is_not_archived_again(
    queue: Queue, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    some_failures(queue, 4)
    run = an_archive("failures", "first-place")
    with monkeypatch.context() as patch:
        patch.setattr(job, "drop", dies)
        assert driven(run).state == "FAILED"
    elsewhere = driven(an_archive("failures", "second-place"))
    assert elsewhere.problem is not None
    assert (elsewhere.problem[0], str(run.pk) in elsewhere.problem[1]) == (
        "ARCHIVE_UNFINISHED",
        True,
    )
    assert again(run.pk)
    assert driven(run).counts == counts(4)
    assert again(elsewhere.pk)
    assert driven(elsewhere).counts == counts(0)


def left_at(folder: str) -> BulkRun:
    """A run that was planned and failed, with an archive in this folder."""
    said = {"kind": "runs", "folder": folder}
    values = {"job": "archive", "state": "FAILED", "plan": {"parts": []}, "parameters": said}
    return BulkRun.objects.create(actor="a", asked_at=timezone.now(), **values)


def code_of(run: BulkRun) -> str:
    return str((driven(run).problem or [""])[0])


def test_a_bucket_that_is_gone_is_not_an_empty_one(queue: Queue, storage: Storage) -> None:
    left_at(f"s3://{BUCKET}/nothing-came-here/")
    lost = left_at("s3://no-such-bucket/archive/")
    run = driven(an_archive("runs", "after-a-loss"))
    assert run.problem is not None
    assert run.problem[0] == "ARCHIVE_UNREACHABLE"
    assert f"{lost.pk} " in run.problem[1]
    assert "s3://no-such-bucket/archive/runs/" in run.problem[1]
    assert give_up(lost.pk, Author("tester"))
    assert again(run.pk)
    assert code_of(run) == ""


def test_archives_on_a_disk_wait_for_a_storage_that_does_not_answer(
    queue: Queue, storage: Storage, settings: Any, tmp_path: Path
) -> None:
    """Until somebody says that nothing can be had back from there."""
    lost = left_at(f"s3://{BUCKET}/archive/")
    settings.SLUICE_S3 = {**settings.SLUICE_S3, "endpoint": "http://127.0.0.1:1"}
    settings.SLUICE_BULK_ROOT = tmp_path
    run = ask("archive", {"kind": "runs", "older_than_days": 30}, actor="tester")
    assert code_of(run) == "ARCHIVE_UNREACHABLE"
    assert give_up(lost.pk, Author("tester"))
    assert again(run.pk)
    assert code_of(run) == ""


def test_an_object_that_is_not_what_was_verified_drops_nothing(
    queue: Queue, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    some_failures(queue, 20)
    monkeypatch.setattr(ObjectShelf, "seal", and_spoil(ObjectShelf.seal))
    run = driven(an_archive("failures", "spoilt"))
    assert (run.problem or [""])[0] == "ARCHIVE_DAMAGED"
    assert MessageError.objects.count() == 20


def and_spoil(seal: Callable[..., None]) -> Callable[..., None]:
    def spoil(self: ObjectShelf, part: int, manifest: Any) -> None:
        seal(self, part, manifest)
        file = manifest["files"][0]
        self.storage.write(f"{self.folder}{manifest['work']}/{file['from']}", b"another")

    return spoil


@pytest.mark.usefixtures("storage")
def test_the_console_archives_into_its_places_alone(settings: Any) -> None:
    settings.SLUICE_S3_PLACES = [f"s3://{BUCKET}/out/"]
    said = {"kind": "runs", "to": f"s3://{BUCKET}/elsewhere/"}
    with pytest.raises(BulkError) as told:
        asking.within(CATALOGUE["archive"], said, Asker(name="anna"))
    assert told.value.job_code == "OUTSIDE_PLACES"
