"""An import as a person asks for it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crontasks.bulk.errors import bad_wish, unknown
from crontasks.parameters import option
from integration.models import ObjectStructure, Queue
from spark_jobs.imports.parameters import Duplicates, Format, ImportParameters


@dataclass(frozen=True, kw_only=True)
class ImportWish:
    """What a form, a command or a schedule says of an import."""

    source: str = option(..., "A file, a folder, or a pattern such as /data/assets-*.csv.")
    format: Format = option(Format.CSV, "How the rows lie in the files.")
    structure: str = option(..., "The object structure that takes the rows.")
    rejects_queue: str = option(..., "The inbound queue whose failures the rejected rows are.")
    columns: str = option(
        "",
        "Which column becomes which member, one a line: COLUMN=PLACE[:KIND][!]. Kinds: text, "
        "integer, number, boolean, date, json; ! = required. As in WEIGHT=facts.weight:number.",
        lines=True,
    )
    duplicates: Duplicates = option(Duplicates.LAST, "Which of several rows with one key counts.")
    encoding: str = option("utf-8", "The encoding of CSV files.")
    delimiter: str = option(",", "What stands between the columns of CSV files.")


def prepare(wish: ImportWish) -> dict[str, Any]:
    """What the job is told: names become what they stand for now.

    Raises BulkError for a name that nobody has, JobError BAD_PARAMETERS.
    """
    structure = ObjectStructure.objects.filter(name=wish.structure).first()
    queue = Queue.objects.filter(name=wish.rejects_queue, direction="inbound").first()
    if structure is None:
        raise unknown("object structure", wish.structure)
    if queue is None:
        raise unknown("inbound queue", wish.rejects_queue)
    parameters = {
        "source": str(Path(wish.source).absolute()),
        "format": str(wish.format),
        "structure": {
            "name": structure.name,
            "key_paths": structure.key_paths,
            "version_path": structure.version_path,
            "json_schema": structure.json_schema,
            "tombstone": structure.tombstone,
        },
        "arrival": 0,
        "rejects_queue": queue.pk,
        "columns": [column(line) for line in wish.columns.splitlines() if line.strip()],
        "duplicates": str(wish.duplicates),
        "encoding": wish.encoding,
        "delimiter": wish.delimiter,
    }
    ImportParameters.of(parameters)
    return parameters


def column(line: str) -> dict[str, object]:
    """One line of the map as the job is told of it. Raises BulkError BAD_PARAMETERS."""
    source, found, place = line.strip().partition("=")
    if not (source and found and place):
        raise bad_wish(f"{line!r} is not COLUMN=PLACE, as in SITE=siteid")
    target, _, kind = place.removesuffix("!").partition(":")
    said = {"source": source, "target": target, "required": place.endswith("!")}
    return {**said, "kind": kind} if kind else said
