"""Files of an import in an object storage are read as those on a disk: same rows, same refusals."""

import json
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from django.urls import reverse

from bench.object_storage import BUCKET, SECRET_KEY, ObjectStorage
from crontasks.bulk import storage as shared
from crontasks.bulk.asking import preview
from crontasks.bulk.errors import BulkError
from spark_jobs.errors import JobError
from spark_jobs.imports import planning, sources
from spark_jobs.storage import DISK, Storage
from tests.support.bulk_pages import assets, logged_in
from tests.unit.bulk.job_requests import import_parameters

pytestmark = pytest.mark.servers
NAMES = ("a.csv", "b.csv", "in/a.csv", "in/b.txt", "in/deep/c.csv", "in/_temporary/d.csv", ".e.csv")
XML = b"<all>" + b"".join(b"<A><N>%d</N></A>" % n for n in range(300)) + b"</all>"


@pytest.fixture
def place() -> str:
    """A folder of this test's own in the bucket."""
    return uuid.uuid4().hex


def rows_at(source: str, storage: Storage, **more: Any) -> list[tuple[int, str, Any, Any]]:
    """Every row, read range by range; what differs by the name of the file alone is left out."""
    parameters = import_parameters(source=source, **more)
    plan = planning.plan(parameters, 1_000, storage)
    plan.check(storage)
    names = sources.names_of([file for file, *_ in plan.files], parameters, storage)
    return [
        (row.line, row.text, list(row.values), row.flaw)
        for part in plan.ranges
        for row in sources.rows_of(part, parameters, names[part.file], storage)
    ]


def in_format(name: str, path: Path) -> dict[str, Any]:
    """Write a file of this format; returns what an import of it is asked for with."""
    match name:
        case "csv":
            lines = [f'A-{n},"line {n}\n of two",{n}' for n in range(300)]
            path.write_text("ASSETNUM,SITEID,WEIGHT\n" + "\n".join(lines) + "\nshort\n")
        case "jsonl":
            path.write_text("".join(json.dumps({"n": n, "ü": "é"}) + "\n" for n in range(300)))
        case "xml":
            path.write_bytes(XML + b"<broken>")
            return {"record": "A", "columns": [{"source": "N", "target": "n"}]}
        case "parquet":
            table = pa.table({"n": list(range(300)), "text": [f"{n}" * 20 for n in range(300)]})
            pq.write_table(table, path, row_group_size=50)
            return {"columns": []}
    return {}


@pytest.mark.parametrize("name", ["csv", "jsonl", "xml", "parquet"])
def test_each_format_is_read_as_from_a_disk(
    object_storage: ObjectStorage, place: str, tmp_path: Path, name: str
) -> None:
    path = tmp_path / f"rows.{name}"
    more = {"format": name, **in_format(name, path)}
    source = object_storage.put(f"{place}/rows.{name}", path.read_bytes())
    there = rows_at(source, Storage.of(object_storage.settings), **more)
    assert there == rows_at(str(path), DISK, **more)
    assert len(there) >= 300


@pytest.mark.parametrize(
    "pattern", ["", "a.csv", "in", "*.csv", "in/*.csv", "**/*.csv", "in/**/c.csv", "?.csv", "[b]*"]
)
def test_folders_and_patterns_find_what_they_find_on_a_disk(
    object_storage: ObjectStorage, tmp_path: Path, pattern: str
) -> None:
    place = "listed"
    for name in NAMES:
        object_storage.put(f"{place}/{name}", b"a\n1\n")
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"a\n1\n")
    there = Storage.of(object_storage.settings).find(f"s3a://{BUCKET}/{place}/{pattern}")
    here = DISK.find(f"{tmp_path}/{pattern}")
    assert [name.removeprefix(f"s3://{BUCKET}/{place}/") for name, _ in there] == [
        str(Path(name).relative_to(tmp_path)) for name, _ in here
    ]
    assert {size for _, size in (*there, *here)} <= {4}
    whole = f"s3a://{BUCKET}/{place}/{pattern}"
    assert Storage.of(object_storage.settings).find(whole, most=1_000) == there


@pytest.mark.usefixtures("console")
def test_a_preview_lists_so_many_objects_and_asks_for_none_alone(
    object_storage: ObjectStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        object_storage.put(f"incoming/many/{number}/a.csv", b"ASSETNUM;SITEID\nA-1;BEDFORD\n")
    said = {
        "source": f"s3://{BUCKET}/incoming/many/",
        "structure": "ASSET",
        "rejects_queue": "assets-in",
        "columns": "ASSETNUM=assetnum!\nSITEID=siteid!",
        "delimiter": ";",
    }
    asked: list[str] = []

    def facts(_: Storage, name: str) -> None:
        asked.append(name)

    with monkeypatch.context() as patched:
        patched.setattr(Storage, "facts", facts)
        assert (preview("import", said).facts["files"], asked) == (3, [])
    # Three folders, and what is in them.
    monkeypatch.setattr(planning, "MOST_PREVIEWED", 4)
    with pytest.raises(BulkError) as told:
        preview("import", said)
    assert told.value.job_code == "TOO_MANY_FILES"


def test_an_upload_of_several_parts_is_whole_or_not_there(
    object_storage: ObjectStorage, place: str, tmp_path: Path
) -> None:
    """Arrow sends what is larger than 10 MB in parts of so many."""
    storage, path = Storage.of(object_storage.settings), tmp_path / "large.csv"
    content = b"0123456789abcdef" * (12 * 2**16)
    path.write_bytes(content)
    name = f"s3://{BUCKET}/{place}/large.csv"
    storage.hand_over(path, name)
    assert object_storage.get(name) == content
    torn = f"s3://{BUCKET}/{place}/torn.csv"
    with suppress(ArithmeticError), storage.created(torn) as stream:
        stream.write(content)
        raise ArithmeticError
    assert storage.find(f"s3://{BUCKET}/{place}/") == [(name, len(content))]


def test_an_object_that_changed_is_not_what_was_planned(
    object_storage: ObjectStorage, place: str
) -> None:
    storage = Storage.of(object_storage.settings)
    source = object_storage.put(f"{place}/rows.csv", b"a\n1\n")
    plan = planning.plan(import_parameters(source=source), storage=storage)
    object_storage.put(f"{place}/rows.csv", b"a\n1\n2\n")
    with pytest.raises(JobError) as told:
        plan.check(storage)
    assert told.value.code == "SOURCE_CHANGED"


@pytest.mark.parametrize(
    ("source", "code"),
    [
        ("s3://", "BAD_STORAGE_NAME"),
        ("s3://key:secret@bucket/a.csv", "BAD_STORAGE_NAME"),
        ("s3://*/a.csv", "BAD_STORAGE_NAME"),
        ("s3://plant/in/../../a.csv", "BAD_STORAGE_NAME"),
        ("s3://plant/nothing-there.csv", "NO_SOURCE"),
        ("s3://no-such-bucket/*.csv", "NO_SOURCE"),
    ],
)
def test_what_is_not_there_is_told(object_storage: ObjectStorage, source: str, code: str) -> None:
    storage = Storage.of(object_storage.settings)
    with pytest.raises(JobError) as told:
        planning.plan(import_parameters(source=source), storage=storage)
    assert told.value.code == code


def test_a_storage_that_is_away_is_told_without_its_secret() -> None:
    storage = Storage(endpoint="http://127.0.0.1:1", access_key="key", secret_key=SECRET_KEY)
    with pytest.raises(JobError) as told:
        planning.plan(import_parameters(source=f"s3://{BUCKET}/*.csv"), storage=storage)
    assert told.value.code == "STORAGE_FAILED"
    assert SECRET_KEY not in f"{told.value.as_tuple} {told.value!r} {storage!r}"


@pytest.fixture
def console(settings: Any, object_storage: ObjectStorage, db: None) -> Any:
    """Without a shared folder: the web and the driver have nothing but the storage in common."""
    settings.SLUICE_S3 = object_storage.settings
    settings.SLUICE_S3_PLACES = [f"s3://{BUCKET}/incoming/"]
    settings.SLUICE_BULK_ROOT = None
    assets()
    return logged_in()


def test_the_console_reads_columns_and_first_rows_of_an_object(
    console: Any, object_storage: ObjectStorage
) -> None:
    name = object_storage.put("incoming/assets.csv", b"ASSETNUM;SITEID\nA-1;BEDFORD\n")
    first = console.get(reverse("bulk-new", args=["import"])).text
    assert f"<code>s3://{BUCKET}/incoming/</code>" in first
    said = {"source": name, "step": "target"}
    page = console.get(reverse("bulk-new", args=["import"]), said)
    assert page.status_code == 200
    seen = preview(
        "import",
        {
            "source": name,
            "structure": "ASSET",
            "rejects_queue": "assets-in",
            "columns": "ASSETNUM=assetnum!\nSITEID=siteid!",
            "delimiter": ";",
        },
    )
    assert [sample.ends for sample in seen.samples] == ["stored"]


@pytest.mark.parametrize(
    ("name", "within"),
    [
        (f"s3://{BUCKET}/incoming-too/a.csv", ""),
        (f"s3://{BUCKET}/other/a.csv", ""),
        ("s3://other/incoming/a.csv", ""),
        (f"s3://{BUCKET}/incoming/a.csv", "uploads/7"),
    ],
)
@pytest.mark.usefixtures("console")
def test_nothing_outside_of_the_places_can_be_named(name: str, within: str) -> None:
    with pytest.raises(BulkError) as told:
        shared.source_inside(name, within)
    assert told.value.job_code == "OUTSIDE_PLACES"
