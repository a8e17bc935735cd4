"""Uploads for imports: streamed into the shared folder, nowhere else, and gone when unneeded."""

import json
import os
import re
from datetime import datetime, timedelta
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client, RequestFactory
from django.urls import reverse
from django.utils import timezone

from console.bulk.uploads import Arriving
from crontasks.builtin import bulk_job
from crontasks.builtin.history_cleanup import HistoryCleanup, HistoryParameters
from crontasks.bulk import storage, uploads
from crontasks.bulk.driving import drive
from crontasks.bulk.errors import BulkError
from crontasks.models import CronInstance
from crontasks.outcome import Context
from integration.models import BulkRun, Queue
from spark_jobs.errors import JobError
from tests.support.bulk_pages import a_file, a_run, assets, logged_in

pytestmark = [pytest.mark.servers, pytest.mark.django_db]
CONTENT = b"A,B\n1,2\n"


@pytest.fixture
def root(settings: Any, tmp_path: Path) -> Path:
    """With a folder around it, to see what gets out."""
    settings.SLUICE_BULK_ROOT = tmp_path / "bulk"
    settings.SLUICE_BULK_ROOT.mkdir()
    return tmp_path / "bulk"


@pytest.fixture
def queue() -> Queue:
    return assets()


def send(client: Client, name: str = "Assets 2026.CSV", content: bytes = CONTENT) -> Any:
    file = SimpleUploadedFile(name, content)
    return client.post(reverse("bulk-uploads"), {"file": file})


def there(root: Path) -> list[Path]:
    return [path for path in root.rglob("*") if path.is_file()]


def test_a_file_is_stored_under_a_name_of_our_own_and_its_import_begins(root: Path) -> None:
    client = logged_in()
    answer = send(client)
    assert answer.status_code == 303
    [name] = parse_qs(urlsplit(answer["Location"]).query)["source"]
    [stored] = there(root)
    assert stored == root / name
    assert stored.read_bytes() == CONTENT
    assert stored.parent.name == client.session["_auth_user_id"]
    assert stored.name.endswith("-assets-2026.csv")
    page = client.get(answer["Location"])
    assert page.status_code == 200
    listed = client.get(reverse("bulk-new", args=["import"])).text
    assert stored.name in listed


def send_raw(client: Client, name: str) -> Any:
    """As a program sends it that names its file as it likes."""
    head = f'--x\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'
    body = head.encode() + CONTENT + b"\r\n--x--\r\n"
    return client.post(
        reverse("bulk-uploads"), body, content_type="multipart/form-data; boundary=x"
    )


NAMES = {
    "relative": "../../etc/cron.d/x.csv",
    "absolute": "/etc/passwd",
    "dots": "..",
    "windows": "..\\..\\x.csv",
    "hidden": ".hidden.csv",
    "nul": "a\0b.csv",
    "long": "\N{LATIN SMALL LETTER U WITH DIAERESIS}" * 300 + ".csv",
    "shell": "$(reboot);rm -rf.csv",
    "underscore": "_SUCCESS",
    "extensions": "a.php.jsonl",
    "escaped": "%2e%2e%2fx.csv",
}


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_no_name_leads_out_of_the_persons_folder(root: Path, name: str) -> None:
    client = logged_in()
    assert send_raw(client, name).status_code in {303, 422}
    own = root / "uploads" / client.session["_auth_user_id"]
    for path in there(root.parent):
        assert path.parent == own
        assert path.name[0] not in "._"
        assert re.fullmatch(r"[a-z0-9][a-z0-9._-]{0,80}", path.name)


def test_an_upload_larger_than_allowed_leaves_nothing(root: Path, settings: Any) -> None:
    settings.SLUICE_BULK_UPLOAD_MB = 1
    client = logged_in()
    refused = send(client, content=b"x" * (2**20 + 1))
    assert refused.status_code == 422
    assert "UPLOAD_TOO_LARGE" in refused.text
    told = send(client, content=b"x" * (3 * 2**20))
    assert told.status_code == 413, "not even read"
    assert "at most 1 MB" in told.text
    assert there(root) == []
    assert send(client, content=b"x" * 2**20).status_code == 303


def test_one_larger_than_any_message_is_taken(root: Path) -> None:
    assert send(logged_in(), content=b"x" * (33 * 2**20)).status_code == 303
    other = logged_in().post(reverse("theme"), {"file": BytesIO(b"x" * (33 * 2**20))})
    assert other.status_code == 413, "no other address takes so much"


def test_nothing_is_written_for_who_may_not_or_for_a_forged_form(root: Path) -> None:
    assert send(Client()).status_code == 302
    assert send(logged_in("Viewers")).status_code == 403
    assert send(logged_in(enforce_csrf_checks=True)).status_code == 403
    assert there(root) == []


def test_the_forms_own_token_lets_it_in(root: Path) -> None:
    client = logged_in(enforce_csrf_checks=True)
    client.get(reverse("bulk-new", args=["import"]))
    token = client.cookies["csrftoken"].value
    form = {"csrfmiddlewaretoken": token, "file": SimpleUploadedFile("a.csv", CONTENT)}
    assert client.post(reverse("bulk-uploads"), form).status_code == 303


def test_a_form_without_a_file_is_told(root: Path) -> None:
    client = logged_in()
    assert client.post(reverse("bulk-uploads")).status_code == 422
    wrong = {"other": SimpleUploadedFile("a.csv", CONTENT)}
    assert client.post(reverse("bulk-uploads"), wrong).status_code == 422
    assert there(root) == []


def test_of_two_files_one_is_taken(root: Path) -> None:
    both = {"file": [SimpleUploadedFile(f"{n}.csv", CONTENT) for n in "ab"]}
    assert logged_in().post(reverse("bulk-uploads"), both).status_code == 303
    assert len(there(root)) == 1


def test_a_folder_that_takes_nothing_is_told(root: Path, settings: Any) -> None:
    a_file(root, "uploads", "a file where the folder should be")
    answer = send(logged_in())
    assert answer.status_code == 422
    assert "UPLOAD_FAILED" in answer.text
    settings.SLUICE_BULK_ROOT = None
    assert "NO_BULK_ROOT" in send(logged_in()).text


def test_what_breaks_off_leaves_nothing(root: Path) -> None:
    arriving = Arriving(RequestFactory().post("/"), "uploads/1")
    arriving.new_file("file", "a.csv", "text/csv", None)
    arriving.receive_data_chunk(CONTENT, 0)
    [part] = there(root)
    assert part.name.startswith(".")
    assert storage.listed("uploads/1") == []
    arriving.drop()
    assert there(root) == []


class TestSharing:
    def test_the_driver_reads_what_the_web_left(self, root: Path, queue: Queue) -> None:
        run = a_run(queue)
        storage.leave_sentinel(run)
        storage.prove_sentinel(run)
        for spoil in (lambda p: p.write_text("of another disk"), Path.unlink):
            spoil(Path(run.sentinel))
            with pytest.raises(JobError) as told:
                storage.prove_sentinel(run)
            assert told.value.code == "UPLOAD_NOT_SHARED"

    @pytest.mark.django_db(transaction=True)
    def test_a_run_whose_folder_is_not_shared_fails_before_anything_is_read(
        self, root: Path, queue: Queue
    ) -> None:
        run = a_run(queue, sentinel="/on/the/webs/disk/.sentinel")
        ended = drive(run.pk, owner="driver")
        assert ended is not None
        assert (ended.state, ended.problem[0]) == ("FAILED", "UPLOAD_NOT_SHARED")

    def test_what_was_asked_for_elsewhere_has_nothing_to_prove(self, queue: Queue) -> None:
        storage.prove_sentinel(a_run(queue))


class TestCleanup:
    @pytest.fixture
    def old(self, root: Path) -> Path:
        return a_file(root, "uploads/7/old.csv", "A\n")

    @pytest.fixture
    def at(self) -> datetime:
        """When the cleanup runs: so late that what the test writes now is old by then."""
        return timezone.now() + timedelta(days=40)

    def aged(self, path: Path, days: float, at: datetime) -> Path:
        moment = (at - timedelta(days=days)).timestamp()
        os.utime(path, (moment, moment))
        return path

    def clean(self, at: datetime) -> int:
        return uploads.remove_old(30, at, bulk_job.scheduled())

    def test_what_no_run_needs_goes_after_its_days(
        self, old: Path, root: Path, at: datetime
    ) -> None:
        young = self.aged(a_file(root, "uploads/7/young.csv", "A\n"), 20, at)
        kept = a_file(root, "incoming/old.csv", "A\n")
        half = self.aged(a_file(root, "uploads/7/.abc.part", "A\n"), 2, at)
        assert self.clean(at) == 1
        assert [path.exists() for path in (old, young, kept, half)] == [False, True, True, False]

    def test_a_file_that_came_lately_stays_though_its_content_is_old(
        self, root: Path, at: datetime
    ) -> None:
        """As one that was moved there, or fetched back from a backup."""
        moved = self.aged(a_file(root, "uploads/7/moved.csv", "A\n"), 400, at)
        assert self.clean(at - timedelta(days=20)) == 0
        assert moved.exists()

    @pytest.mark.parametrize(
        "source",
        [
            *("uploads/7/old.csv", "uploads/7", "uploads/*/o*.csv"),
            *("uploads/7/**/old.csv", "uploads/**/**"),
        ],
    )
    @pytest.mark.parametrize("is_whole", [True, False])
    def test_what_a_schedule_names_stays(
        self, old: Path, root: Path, at: datetime, source: str, is_whole: bool
    ) -> None:
        asked = {"source": str(root / source) if is_whole else source, "structure": "ASSET"}
        schedule = CronInstance.objects.create(
            name="yearly",
            task="bulk_job",
            crontab="0 2 1 1 *",
            active=False,
            parameters={"job_request": json.dumps(asked)},
        )
        self.clean(at)
        assert old.exists()
        schedule.delete()
        self.clean(at)
        assert not old.exists()

    def test_a_schedule_that_cannot_be_read_needs_nothing(self, old: Path, at: datetime) -> None:
        for number, asked in enumerate(["{", "[]", '{"source": "../x.csv"}', '{"source": 7}']):
            CronInstance.objects.create(
                name=f"s{number}",
                task="bulk_job",
                interval_seconds=60,
                parameters={"job_request": asked},
            )
        CronInstance.objects.filter(name="s0").update(parameters={"no such": "parameter"})
        assert self.clean(at) == 1

    def test_the_history_cleanup_removes_them(self, root: Path) -> None:
        half = self.aged(a_file(root, "uploads/7/.abc.part", "A\n"), 2, timezone.now())
        context = Context(instance_id=1, scheduled_at=timezone.now(), actor="nightly")
        HistoryCleanup().run(HistoryParameters(), context)
        assert not half.exists()

    @pytest.mark.parametrize("source", ["uploads/7/old.csv", "uploads/7", "uploads/*/o*.csv"])
    @pytest.mark.parametrize(
        ("state", "days", "stays"),
        [
            ("ASKED", None, True),
            ("RUNNING", None, True),
            ("FAILED", 10, True),
            ("DONE", 10, True),
            ("DONE", 31, False),
            ("FAILED", 31, False),
            ("ASKED", 31, True),
        ],
    )
    def test_what_a_run_needs_stays_until_it_has_ended_for_as_long(
        self,
        old: Path,
        root: Path,
        at: datetime,
        source: str,
        state: str,
        days: int | None,
        stays: bool,
    ) -> None:
        ended = None if days is None else at - timedelta(days=days)
        a_run(job_request={"source": str(root / source)}, state=state, ended_at=ended)
        self.clean(at)
        assert old.exists() is stays

    def test_a_sentinel_goes_with_its_run(self, root: Path, at: datetime) -> None:
        run = a_run()
        storage.leave_sentinel(run)
        run.save(update_fields=["sentinel"])
        sentinel = Path(run.sentinel)
        self.clean(at)
        assert sentinel.exists()
        BulkRun.objects.all().delete()
        self.clean(at)
        assert not sentinel.exists()

    def test_without_a_folder_nothing_is_looked_for(self, at: datetime) -> None:
        assert self.clean(at) == 0


def test_names_within_the_folder_are_shown_without_it(root: Path) -> None:
    assert storage.shown(str(root / "uploads/1/a.csv")) == "uploads/1/a.csv"
    assert storage.shown("/elsewhere/a.csv") == "/elsewhere/a.csv"


def test_a_folder_of_very_many_files_is_told(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "MOST_FILES", 2)
    for number in range(3):
        a_file(root, f"in/{number}.csv", "A\n")
    with pytest.raises(BulkError) as told:
        storage.source_inside("in/*.csv")
    assert told.value.job_code == "TOO_MANY_FILES"
