"""The preview of an import: what it would make of the first rows; nothing is written anywhere."""

from typing import Final

from spark_jobs.contract import Arguments, Preview, Sample
from spark_jobs.imports import planning, sources
from spark_jobs.imports.mapping import Document, Mapper
from spark_jobs.imports.parameters import Format, ImportParameters
from spark_jobs.imports.rows import Row
from spark_jobs.storage import Storage

SHOWN_CHARACTERS: Final = 2_000


def preview(arguments: Arguments) -> Preview:
    """The first rows of the first file that has any, each with what would become of it.

    Raises JobError: what planning and reading refuse, NO_HEADER, UNKNOWN_COLUMN.
    """
    parameters = ImportParameters.of(arguments.parameters)
    storage = Storage.of(arguments.storage)
    files = planning.files_of(parameters, storage, most=planning.MOST_PREVIEWED)
    glimpse = sources.glimpse(files, parameters, storage)
    samples: list[Sample] = []
    if glimpse.rows or glimpse.names:
        mapper = Mapper(parameters, glimpse.names)
        samples = [_sample(row, mapper, parameters) for row in glimpse.rows]
    return Preview(
        samples=samples,
        rows=glimpse.count,
        bytes=sum(size for _, size in files),
        columns=glimpse.columns,
        facts={"files": len(files), **glimpse.facts},
    )


def _sample(row: Row, mapper: Mapper, parameters: ImportParameters) -> Sample:
    became = mapper.map(row)
    place = f"{'row' if parameters.format is Format.PARQUET else 'line'} {row.line:,}"
    if isinstance(became, Document):
        ends = "stored" if parameters.target is None else "sent"
        return Sample(place=place, ends=ends, text=became.text[:SHOWN_CHARACTERS])
    code, why = became.flaw
    text = became.payload.decode("utf-8", "replace")[:SHOWN_CHARACTERS]
    return Sample(place=place, ends="rejected", text=text, code=code, why=why)
