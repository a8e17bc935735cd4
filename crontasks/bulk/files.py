"""The files that an export made, for those who fetch them."""

from dataclasses import dataclass
from pathlib import Path

from crontasks.bulk import storage
from crontasks.bulk.job_requests.exports import FOLDER
from integration.models import BulkRun
from spark_jobs.exports.job import MANIFEST
from spark_jobs.tables.keeping import read_json


@dataclass(frozen=True, slots=True)
class RunFile:
    """One file: its rows, its size, and its checksum as it was when it was written."""

    name: str
    path: Path
    rows: int
    bytes: int
    sha256: str


def files_of(run: BulkRun) -> list[RunFile]:
    """The files of an export in their order; none while it is not whole, or once they are gone.

    Raises BulkError NO_BULK_ROOT.
    """
    folder = storage.inside(f"{FOLDER}/{run.pk}")
    manifest = read_json(folder / MANIFEST) or {}
    found = [
        RunFile(one["name"], folder / one["name"], one["rows"], one["bytes"], one["sha256"])
        for one in manifest.get("files", ())
    ]
    return [file for file in found if file.path.is_file()]
