"""What an import would make of the first rows of its source; nothing is written anywhere."""

from itertools import islice
from pathlib import Path
from typing import Final

from spark_jobs.contract import SAMPLES, Arguments, Preview, Sample
from spark_jobs.imports import planning
from spark_jobs.imports.mapping import Document, Mapper
from spark_jobs.imports.parameters import Format, ImportParameters
from spark_jobs.imports.planning import Range
from spark_jobs.imports.reading import Row, header_of, rows

# So much of the first file is looked at; rows beyond it are estimated by the size of these.
LOOKED_AT_BYTES: Final = 2**18
SHOWN_CHARACTERS: Final = 2_000


def preview(arguments: Arguments) -> Preview:
    """The first rows of the first file that has any, each with what would become of it.

    Raises JobError: what planning and reading refuse, NO_HEADER, UNKNOWN_COLUMN.
    """
    parameters = ImportParameters.of(arguments.parameters)
    files = planning.files_of(parameters)
    total = sum(size for _, size in files)
    path, size = next(((path, size) for path, size in files if size), files[0])
    names = header_of(path, parameters) if size and parameters.format is Format.CSV else []
    part = Range(number=0, file=str(path), begin=0, end=_end(path, size), line=1)
    found = list(rows(part, parameters, len(names)))
    mapper = Mapper(parameters, names)
    return Preview(
        samples=[_sample(row, mapper) for row in islice(found, SAMPLES)],
        rows=round(total / part.end * len(found)) if part.end else 0,
        bytes=total,
        columns=names,
        facts={"files": len(files)},
    )


def _end(path: Path, size: int) -> int:
    """Behind the last whole line of what is looked at."""
    if size <= LOOKED_AT_BYTES:
        return size
    with path.open("rb") as file:
        return file.read(LOOKED_AT_BYTES).rfind(b"\n") + 1 or LOOKED_AT_BYTES


def _sample(row: Row, mapper: Mapper) -> Sample:
    became = mapper.map(row)
    place = f"line {row.line:,}"
    if isinstance(became, Document):
        return Sample(place=place, ends="stored", text=became.text[:SHOWN_CHARACTERS])
    code, why = became.flaw
    text = became.payload.decode("utf-8", "replace")[:SHOWN_CHARACTERS]
    return Sample(place=place, ends="rejected", text=text, code=code, why=why)
