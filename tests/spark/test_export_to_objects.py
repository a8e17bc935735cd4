"""Exports into an object storage on a real Spark: whole once the manifest is there, or nothing."""

import hashlib
import io
import json
from typing import Any

import pyarrow.parquet as pq
import pytest
from django.test import Client
from django.urls import reverse

from bench.object_storage import BUCKET, SECRET_KEY, ObjectStorage
from crontasks.bulk import asking
from crontasks.bulk.asking import Asker
from crontasks.bulk.catalogue import CATALOGUE
from crontasks.bulk.errors import BulkError
from integration.models import BulkRun, ObjectStructure, StoredObject
from spark_jobs.exports import to_objects
from spark_jobs.storage import Storage
from tests.support.bulk import an_asset_structure, driven, shared_session
from tests.support.exports import an_export, in_ranges, some_documents
from tests.support.rows import a_person

pytestmark = [
    pytest.mark.servers,
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(500),
]
ROWS = 1_000


@pytest.fixture(scope="module", autouse=True)
def spark() -> Any:
    return shared_session()


@pytest.fixture
def storage(object_storage: ObjectStorage, settings: Any) -> Storage:
    """Of an installation whose machines share no folder."""
    settings.SLUICE_S3 = object_storage.settings
    settings.SLUICE_BULK_ROOT = None
    return Storage.of(object_storage.settings)


@pytest.fixture
def structure(transactional_db: None) -> ObjectStructure:
    made = an_asset_structure()
    some_documents(made, ROWS)
    return made


@pytest.mark.usefixtures("structure")
def test_the_files_are_there_as_the_manifest_says_and_the_run_says_where(
    storage: Storage, object_storage: ObjectStorage
) -> None:
    run = driven(in_ranges(an_export(to=f"s3a://{BUCKET}/out"), 300))

    assert (run.problem, run.state) == (None, "DONE")
    assert run.counts == {"read": ROWS, "sent": ROWS, "rejected": 0, "skipped": 0}
    folder = run.facts["folder"]
    assert folder.startswith(f"s3://{BUCKET}/out/{run.pk}-")
    manifest = json.loads(object_storage.get(f"{folder}_manifest.json"))
    assert len(manifest["files"]) == run.facts["files"] == 4
    lines: list[bytes] = []
    for file in manifest["files"]:
        content = object_storage.get(folder + file["name"])
        assert len(content) == file["bytes"]
        assert hashlib.sha256(content).hexdigest() == file["sha256"]
        lines += content.splitlines()
    assert sorted(json.loads(line)["num"] for line in lines) == list(range(1, ROWS + 1))
    assert SECRET_KEY not in json.dumps([run.facts, run.parameters, run.job_request, run.log])
    page = Client()
    page.force_login(a_person("Administrators"))
    assert folder in page.get(reverse("bulk-run", args=[run.pk])).text


@pytest.mark.usefixtures("structure")
def test_parquet_is_written_by_each_task_with_the_types_of_its_columns(
    storage: Storage, object_storage: ObjectStorage
) -> None:
    columns = "key=key\nat=updated_at\ndeleted=deleted\nnumber=$.num"
    said = {"format": "parquet", "columns": columns, "to": f"s3://{BUCKET}/parquet/"}
    run = driven(in_ranges(an_export(**said), 300))

    assert (run.problem, run.state) == (None, "DONE")
    assert run.counts == {"read": ROWS, "sent": ROWS, "rejected": 0, "skipped": 0}
    rows = []
    for name, _ in storage.find(run.facts["folder"]):
        # Threads of Arrow would be torn apart by the forks of tests that come later.
        file = pq.ParquetFile(io.BytesIO(object_storage.get(name)))
        assert str(file.schema_arrow.field("at").type) == "timestamp[us, tz=UTC]"
        assert str(file.schema_arrow.field("deleted").type) == "bool"
        rows += file.read(use_threads=False).to_pylist()
    assert {row["number"] for row in rows} == {str(n) for n in range(1, ROWS + 1)}
    stored = dict(StoredObject.objects.values_list("key", "updated_at"))
    assert {row["key"]: row["at"] for row in rows} == stored


@pytest.mark.usefixtures("structure")
def test_what_did_not_finish_is_removed_and_the_run_goes_on(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver's own door breaks off behind the files; another try begins anew."""
    run = in_ranges(an_export(to=f"s3://{BUCKET}/torn/"), 300)
    with monkeypatch.context() as patch:
        patch.setattr(to_objects, "manifest_of", torn)
        assert driven(run).state == "FAILED"
    assert storage.find(f"s3://{BUCKET}/torn/") == []
    BulkRun.objects.filter(pk=run.pk).update(state="ASKED", problem=None)
    again = driven(run)
    assert again.state == "DONE"
    assert len(storage.find(again.facts["folder"])) == 4


def torn(*_: object) -> None:
    raise OSError("the driver's machine is in trouble")


@pytest.mark.usefixtures("structure", "storage")
@pytest.mark.parametrize(
    ("said", "code"),
    [
        ({"to": "/srv/exports"}, "BAD_STORAGE_NAME"),
        ({"to": f"s3://{BUCKET}/out/", "into_queue": "in"}, "BAD_PARAMETERS"),
    ],
)
def test_what_cannot_be_is_refused_at_once(said: dict[str, str], code: str) -> None:
    with pytest.raises(BulkError) as told:
        an_export(**said)
    assert told.value.job_code == code


@pytest.mark.usefixtures("storage")
def test_the_console_writes_to_its_places_alone(settings: Any) -> None:
    settings.SLUICE_S3_PLACES = [f"s3://{BUCKET}/out/"]
    entry, asker = CATALOGUE["export"], Asker(name="anna")
    there = asking.within(entry, {"to": f"s3a://{BUCKET}/out/assets"}, asker)
    assert there["to"] == f"s3://{BUCKET}/out/assets/"
    with pytest.raises(BulkError) as told:
        asking.within(entry, {"to": f"s3://{BUCKET}/outside/"}, asker)
    assert told.value.job_code == "OUTSIDE_PLACES"
