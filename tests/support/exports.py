"""Exports for tests: documents in the object store, runs, and what their files hold."""

import csv
import json
from pathlib import Path
from typing import Any, NamedTuple

from django.db import connection

from crontasks.bulk.asking import ask, conninfo
from integration.models import BulkRun, ObjectStructure, Queue, StoredObject
from spark_jobs.exports import planning
from spark_jobs.exports.manifest import MANIFEST
from spark_jobs.exports.parameters import ExportParameters
from spark_jobs.tables.reading import moment
from tests.support.builders import a_provider


def some_documents(structure: ObjectStructure, count: int) -> None:
    """Assets with numbers that no floating point holds, straight into the store."""
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO integration_storedobject (structure_id, key, document, xml, version, "
            "arrival_batch, arrival_index, message_id, topic_uuid, updated_at) "
            "SELECT %s, 'A-' || to_char(n, 'FM000000'), jsonb_build_object('num', n, 'price', "
            "(n || '.10')::numeric, 'site', 'S-' || n %% 7), '', 1, 1, n, 'm-' || n, '', now() "
            "FROM generate_series(1, %s) n",
            [structure.pk, count],
        )


def a_document(structure: ObjectStructure, key: str, document: str | None, **more: Any) -> None:
    """One document of exactly this JSON; None is a deleted one, unless `xml` is given."""
    fields = {"xml": "", "updated_at": "2026-01-10T00:00Z", **more}
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO integration_storedobject (structure_id, key, document, xml, version, "
            "arrival_batch, arrival_index, message_id, topic_uuid, updated_at) "
            "VALUES (%s, %s, %s::jsonb, %s, 1, 1, 0, '', '', %s)",
            [structure.pk, key, document, fields["xml"], fields["updated_at"]],
        )


def a_plain_queue(name: str) -> Queue:
    return Queue.objects.create(
        name=name,
        topic=name,
        provider=a_provider("127.0.0.1:1"),
        kind="continuous",
        start_from="beginning",
    )


def an_export(what: str = "documents", **job_request: Any) -> BulkRun:
    said = {"structure": "ASSET"} if what == "documents" else {}
    return ask("export", {"what": what, **said, **job_request}, actor="tester")


def in_ranges(run: BulkRun, rows: int) -> BulkRun:
    """The run with its plan made, of ranges of so many rows."""
    with moment(conninfo()) as held:
        made = planning.plan(held.session, ExportParameters.of(run.parameters), rows)
    BulkRun.objects.filter(pk=run.pk).update(plan=made.as_json())
    run.refresh_from_db()
    return run


def folder_of(run: BulkRun) -> Path:
    return Path(run.parameters["folder"]) / str(run.pk)


def left_over(run: BulkRun) -> list[Path]:
    """Hidden files of a run that was not whole."""
    return list(Path(run.parameters["folder"]).glob(f".{run.pk}*"))


def manifest_of(run: BulkRun) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder_of(run) / MANIFEST).read_text())
    return found


class RunFile(NamedTuple):
    """A file of a manifest: its rows, size and checksum as they were when it was written."""

    name: str
    path: Path
    rows: int
    bytes: int
    sha256: str


def files_of(run: BulkRun) -> list[RunFile]:
    """Its files in their order, as the manifest lists them."""
    return [RunFile(path=folder_of(run) / one["name"], **one) for one in manifest_of(run)["files"]]


def lines_of(run: BulkRun) -> list[str]:
    """All lines of its files, in their order."""
    files = sorted(folder_of(run).glob("part-*"))
    return [line for path in files for line in path.read_text().splitlines()]


def csv_of(run: BulkRun) -> list[list[str]]:
    """The rows of its CSV files, without their headers."""
    found = []
    for path in sorted(folder_of(run).glob("part-*")):
        with path.open(newline="") as opened:
            found += list(csv.reader(opened))[1:]
    return found


def keys_in_store() -> set[str]:
    return set(StoredObject.objects.values_list("key", flat=True))
