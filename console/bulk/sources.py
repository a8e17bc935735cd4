"""Guesses about a file for an import: its format, encoding and delimiter, and its columns.

They fill a form that a person then corrects; nothing is decided by them.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any, Final

from crontasks.bulk import storage
from crontasks.bulk.asking import preview
from crontasks.bulk.errors import BulkError
from spark_jobs.errors import JobError
from spark_jobs.imports import columns
from spark_jobs.imports.columns import FoundColumn
from spark_jobs.imports.parameters import Format
from spark_jobs.storage import is_object

LOOKED_AT_BYTES: Final = 2**16
FORMATS: Final[Mapping[str, Format]] = {
    ".json": Format.JSON_LINES,
    ".jsonl": Format.JSON_LINES,
    ".ndjson": Format.JSON_LINES,
    ".xml": Format.XML,
    ".parquet": Format.PARQUET,
}
DELIMITERS: Final = (",", ";", "\t", "|")
# The first that fits: what has no sign outside of ASCII is UTF-8 as well.
ENCODINGS: Final = ("utf-8", "latin-1")


def seeming(source: str) -> dict[str, str]:
    """Guess the format, encoding and delimiter of a source, named as in a job request.

    By its name and the beginning of a file; of a folder or pattern nothing is looked at. Raises
    OSError, JobError STORAGE_FAILED.
    """
    begins = b""
    if is_object(source):
        if storage.object_storage().facts(source) is not None:
            with storage.object_storage().open(source) as file:
                begins = file.read(LOOKED_AT_BYTES)
    elif Path(source).is_file():
        with Path(source).open("rb") as file:
            begins = file.read(LOOKED_AT_BYTES)
    head = begins.partition(b"\n")[0].decode("latin-1")
    return {
        "format": FORMATS.get(PurePath(source).suffix.lower(), Format.CSV).value,
        "encoding": _encoding(begins),
        # The usual one where the line has none of them.
        "delimiter": max(DELIMITERS, key=head.count),
    }


def columns_of(job_request: Mapping[str, Any]) -> Sequence[FoundColumn]:
    """The columns of an import's source that a map may name; none where it has no such thing.

    Raises BulkError.
    """
    if job_request.get("format", Format.CSV) == Format.CSV:
        try:
            return columns.read(
                str(job_request["source"]),
                encoding=str(job_request.get("encoding", ENCODINGS[0])),
                delimiter=str(job_request.get("delimiter", DELIMITERS[0])),
                storage=storage.object_storage(),
            )
        except JobError as e:
            raise BulkError.of(e) from e
    without_map = {name: value for name, value in job_request.items() if name != "columns"}
    return [FoundColumn(name, ()) for name in preview("import", without_map).columns]


def _encoding(begins: bytes) -> str:
    # The last sign of what was read may be cut in two.
    whole = begins if len(begins) < LOOKED_AT_BYTES else begins[: begins.rfind(b"\n") + 1]
    for name in ENCODINGS:
        try:
            whole.decode(name)
        except UnicodeDecodeError:
            continue
        return name
    return ENCODINGS[0]
