"""What goes wrong during an archive costs no row: neither here nor in the files."""

import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.db import connection
from django.utils import timezone

from crontasks.bulk import driving
from crontasks.bulk.asking import conninfo
from crontasks.bulk.deciding import again, cancel
from crontasks.bulk.driving import drive
from integration.models import BulkRun, ErrorChange, MessageError, MessageTrack, Queue
from integration.store import track_days
from spark_jobs.archive import dropping, job
from spark_jobs.archive.disk_shelf import DiskShelf
from spark_jobs.tables import parquet
from tests.support.archives import (
    DAY,
    a_day_of_tracking,
    an_archive,
    archived_files,
    archived_ids,
    cleaned,
    counts,
    done,
    fill,
    hostile_session,
    manifests_of,
    shelf_of,
    some_failures,
    when,
    work_of,
)
from tests.support.bulk import driven
from tests.support.exports import a_plain_queue
from tests.support.full_disk import files_no_longer_than

pytestmark = [
    pytest.mark.servers,
    pytest.mark.django_db(transaction=True),
    # The first one also waits for the servers and for Spark.
    pytest.mark.timeout(600),
]


@pytest.fixture(scope="module", autouse=True)
def spark() -> Iterator[Any]:
    with hostile_session() as session:
        yield session


@pytest.fixture(autouse=True)
def root(servers: Any, tmp_path: Path, settings: Any) -> None:
    settings.SLUICE_BULK_ROOT = tmp_path


@pytest.fixture
def queue(servers: Any) -> Queue:
    return a_plain_queue("orders")


@pytest.fixture(autouse=True)
def old_days(servers: Any) -> Iterator[None]:
    """Partitions are no rows: what is left of a test's days goes with it."""
    yield
    track_days.drop_before(timezone.now() - 5 * DAY)


def test_a_row_that_changed_meanwhile_stays(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = some_failures(queue, 20)

    def change() -> None:
        MessageError.objects.filter(pk=rows[0].pk).update(state="HOLD", closed_at=None)
        MessageError.objects.filter(pk=rows[1].pk).update(text="another")
        ErrorChange.objects.filter(error=rows[2]).update(reason="after all")
        MessageError.objects.filter(pk=rows[3].pk).delete()

    when(monkeypatch, "check", change)
    run = done(an_archive("failures"))

    assert run.counts == counts(20, skipped=3)
    assert set(MessageError.objects.values_list("pk", flat=True)) == {row.pk for row in rows[:3]}
    assert run.facts["kept"] == 3
    assert len(archived_ids(run)) == 20


def test_a_day_that_changed_meanwhile_stays_and_so_does_its_copy(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row comes for one that goes: as many are there, and not the same."""
    changed = a_day_of_tracking(queue, 40, 30)
    a_day_of_tracking(queue, 35, 10)

    def change() -> None:
        MessageTrack.objects.filter(at__lt=changed + DAY, offset=1).delete()
        fill(queue, changed + timedelta(hours=1), 1)

    when(monkeypatch, "check", change)
    run = done(an_archive("messages"))

    assert run.counts == counts(40, skipped=30)
    assert MessageTrack.objects.count() == 30
    assert len(archived_ids(run)) == 40, "nothing is ever taken out of the archive"
    monkeypatch.undo()
    last = done(an_archive("messages"))
    assert last.counts == counts(30)
    assert MessageTrack.objects.count() == 0
    assert len(set(archived_ids(last))) == 41


@pytest.mark.parametrize(("part", "rows"), [(0, 30), (1, 35)])
def test_what_the_cleanup_removes_first_is_in_the_archive(
    queue: Queue, monkeypatch: pytest.MonkeyPatch, part: int, rows: int
) -> None:
    """It comes when a part's files are in their places: of a day, and of rows that lie in none."""
    a_day_of_tracking(queue, 40, 30)
    fill(queue, timezone.now() - 60 * DAY, 5)
    fill(queue, timezone.now(), 6)
    place = DiskShelf.place

    def and_clean(self: DiskShelf, manifest: Any) -> None:
        place(self, manifest)
        if manifest["part"] == part:
            cleaned()

    monkeypatch.setattr(DiskShelf, "place", and_clean)
    run = done(an_archive("messages"))
    assert run.counts == counts(rows)
    assert len(archived_ids(run)) == rows
    assert MessageTrack.objects.count() == 6


def test_rows_of_no_day_go_one_by_one(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cleanup takes one of them meanwhile, and two come that the archive does not have."""
    long_ago = timezone.now() - 60 * DAY
    fill(queue, long_ago, 5)

    def meanwhile() -> None:
        MessageTrack.objects.filter(offset=3).delete()
        fill(queue, long_ago + timedelta(hours=1), 2)

    when(monkeypatch, "check", meanwhile)
    run = done(an_archive("messages"))

    assert run.counts == counts(5)
    assert MessageTrack.objects.count() == 2
    assert len(archived_ids(run)) == 5


def test_a_driver_that_died_at_the_very_end_holds_up_nobody(queue: Queue) -> None:
    """Its part was ended, and still named as pending: it goes on, or nobody lets it."""
    some_failures(queue, 3)
    run = done(an_archive("failures"))
    (manifest,) = (shelf_of(run) / "_manifests").glob("*.json")
    pending = shelf_of(run) / "_pending" / manifest.name
    pending.write_text(manifest.read_text())
    BulkRun.objects.filter(pk=run.pk).update(state="ASKED", applied=False, counts={})
    assert done(run).counts == counts(3)
    pending.write_text(manifest.read_text())
    (shelf_of(run) / f".{run.parameters['installation']}-{run.pk}-0a1b2c3d").mkdir()
    some_failures(queue, 2)
    assert done(an_archive("failures")).counts == counts(2)
    assert (list(pending.parent.iterdir()), work_of(run)) == ([], [])


@pytest.mark.parametrize(
    ("kind", "table"), [("failures", "messageerror"), ("messages", "messagetrack")]
)
def test_rows_stay_when_their_table_got_a_column_meanwhile(
    queue: Queue, monkeypatch: pytest.MonkeyPatch, kind: str, table: str
) -> None:
    """A release came in between: the files know nothing of what the column holds."""
    some_failures(queue, 5)
    a_day_of_tracking(queue, 40, 5)

    def release() -> None:
        with connection.cursor() as cursor:
            cursor.execute(f"ALTER TABLE integration_{table} ADD COLUMN later text DEFAULT 'x'")

    when(monkeypatch, "check", release)
    try:
        assert done(an_archive(kind)).counts == counts(5, skipped=5)
        assert (MessageError.objects.count(), MessageTrack.objects.count()) == (5, 5)
    finally:
        with connection.cursor() as cursor:
            cursor.execute(f"ALTER TABLE integration_{table} DROP COLUMN IF EXISTS later")


def test_a_full_disk_drops_nothing(queue: Queue) -> None:
    some_failures(queue, 5, days=200)
    done(an_archive("failures"))  # what Spark unpacks for itself the first time is no archive
    some_failures(queue, 200)
    run = an_archive("failures")
    with files_no_longer_than(8_000):
        failed = driven(run)
    assert failed.problem[0] == "DISK_FULL"
    assert MessageError.objects.count() == 200
    assert (work_of(run), manifests_of(run, "_pending")) == ([], [])
    some_failures(queue, 1, days=300)  # due since the plan was made, and older than all of it
    assert again(run.pk)
    assert done(run).counts == counts(201)
    assert len(archived_ids(run)) == 206


def test_a_folder_that_takes_nothing_drops_nothing(queue: Queue) -> None:
    some_failures(queue, 5)
    run = an_archive("failures")
    Path(run.parameters["folder"]).write_text("a file where a folder should be")
    assert driven(run).state == "FAILED"
    assert MessageError.objects.count() == 5


@pytest.mark.parametrize("damage", ["cut", "gone"])
def test_files_that_do_not_hold_all_rows_drop_nothing(
    queue: Queue, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    """Before they are read back one is cut, or gone."""
    some_failures(queue, 50)
    run = an_archive("failures")

    def act() -> None:
        one = min(shelf_of(run).glob(".*/rows/day=*/*.parquet"))
        if damage == "cut":
            one.write_bytes(one.read_bytes()[:100])
        else:
            one.unlink()

    when(monkeypatch, "check", act)
    assert driven(run).state == "FAILED"
    assert MessageError.objects.count() == 50
    assert (work_of(run), manifests_of(run, "_pending"), archived_files(run)) == ([], [], [])


def _checksum(path: Path) -> Path:
    return path.with_name(f".{path.name}.crc")


def test_a_whole_file_with_the_rows_of_another_drops_nothing(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There are as many rows as were read, and each file is sound by Spark's own checksum."""
    some_failures(queue, 50)
    run = an_archive("failures")
    write = parquet.write

    def and_swap(rows: Any, folder: Path, by: str = "") -> None:
        write(rows, folder, by)
        one, other, *_ = sorted(folder.glob("day=*/*.parquet"))
        for mine, its in ((one, other), (_checksum(one), _checksum(other))):
            mine.write_bytes(its.read_bytes())

    monkeypatch.setattr(parquet, "write", and_swap)
    ended = driven(run)
    assert ended.problem[0] == "ARCHIVE_DAMAGED"
    assert "it has 50 rows" in ended.problem[1]
    assert MessageError.objects.count() == 50
    assert (work_of(run), manifests_of(run, "_pending"), archived_files(run)) == ([], [], [])


def test_a_file_that_is_not_what_was_verified_drops_nothing(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bytes on the disk change between the check and the drop."""
    some_failures(queue, 50)
    run = an_archive("failures")
    seal = DiskShelf.seal

    def and_spoil(self: DiskShelf, part: int, manifest: Any) -> None:
        seal(self, part, manifest)
        for path in self.folder.glob(".*/rows/day=*/*.parquet"):
            content = bytearray(path.read_bytes())
            content[len(content) // 2] ^= 1
            path.write_bytes(bytes(content))

    monkeypatch.setattr(DiskShelf, "seal", and_spoil)
    ended = driven(run)
    assert ended.problem[0] == "ARCHIVE_DAMAGED"
    assert MessageError.objects.count() == 50


def test_a_rerun_archives_no_row_twice(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cancelled when the files were in place and nothing was dropped; another run is refused."""
    some_failures(queue, 50)
    run = an_archive("failures")
    place = DiskShelf.place

    def and_cancel(self: DiskShelf, manifest: Any) -> None:
        place(self, manifest)
        cancel(run.pk)

    monkeypatch.setattr(DiskShelf, "place", and_cancel)
    assert driven(run).state == "CANCELLED"
    monkeypatch.undo()
    assert (MessageError.objects.count(), len(manifests_of(run, "_pending"))) == (50, 1)

    other = driven(an_archive("failures"))
    assert other.problem[0] == "ARCHIVE_UNFINISHED"
    assert str(run.pk) in other.problem[2]
    before = {path.name: path.stat().st_ino for path in archived_files(run)}
    assert again(run.pk)
    assert done(run).counts == counts(50)
    assert {path.name: path.stat().st_ino for path in archived_files(run)} == before
    assert len(archived_ids(run)) == 50
    assert again(other.pk)
    assert done(other).counts == counts(0)


def test_two_runs_of_a_kind_do_not_archive_at_once(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    some_failures(queue, 3)
    run = an_archive("failures")
    monkeypatch.setattr(job, "_WAIT", "SET LOCAL lock_timeout = '100ms'")
    with psycopg.connect(conninfo()) as other:
        other.execute(job._ALONE, ["failures"])
        assert driven(run).problem[0] == "ARCHIVE_BUSY"
    assert (MessageError.objects.count(), work_of(run)) == (3, [])


def test_a_row_that_somebody_keeps_is_left_to_the_next_try(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    some_failures(queue, 3)
    run = an_archive("failures")
    monkeypatch.setattr(dropping, "TRIES", 1)
    monkeypatch.setattr(dropping, "PATIENT", "SET LOCAL lock_timeout = '100ms'")
    with psycopg.connect(conninfo()) as other:
        other.execute("SELECT 1 FROM integration_messageerror LIMIT 1 FOR UPDATE")
        assert driven(run).problem[0] == "STILL_IN_USE"
    assert MessageError.objects.count() == 3
    assert again(run.pk)
    assert done(run).counts == counts(3)


def test_a_driver_that_lost_the_run_drops_nothing(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    some_failures(queue, 20)
    run = an_archive("failures")
    place = DiskShelf.place

    def and_lose(self: DiskShelf, manifest: Any) -> None:
        place(self, manifest)
        BulkRun.objects.filter(pk=run.pk).update(epoch=99)

    monkeypatch.setattr(DiskShelf, "place", and_lose)
    monkeypatch.setattr(driving.RowTell, "go_on", lambda _: None)
    drive(run.pk, owner="too slow")
    assert MessageError.objects.count() == 20


def test_a_day_in_use_is_waited_for(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody reads all days; when he has ended, the day goes."""
    a_day_of_tracking(queue, 40, 10)
    with psycopg.connect(conninfo()) as reading:

        def read() -> None:
            reading.execute("SELECT count(*) FROM integration_messagetrack")
            threading.Timer(2, reading.close).start()

        when(monkeypatch, "check", read)
        assert done(an_archive("messages")).counts == counts(10)
        assert reading.closed
