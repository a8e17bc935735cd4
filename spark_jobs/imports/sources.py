"""Each format's way to be cut, read and looked at, behind one door.

What reads Parquet is imported where a file of it is read: Arrow starts threads, which no process
may have that workers are forked from.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Final

from spark_jobs.contract import SAMPLES
from spark_jobs.errors import JobError
from spark_jobs.imports import cutting, reading, xml_reading
from spark_jobs.imports.cutting import Cut
from spark_jobs.imports.parameters import Format, ImportParameters
from spark_jobs.imports.rows import Range, Row

# So much of the first file is looked at; rows beyond it are estimated by the size of these.
LOOKED_AT_BYTES: Final = 2**18


@dataclass(frozen=True, slots=True, kw_only=True)
class Glimpse:
    """The first rows of a source, the values they have, all that a map may name, how many rows.

    `facts` are what else was noticed: of XML the element around all others.
    """

    rows: Sequence[Row] = ()
    names: Sequence[str] = ()
    columns: Sequence[str] = ()
    count: int = 0
    facts: Mapping[str, str] = field(default_factory=dict)


def cuts_of(path: Path, size: int, parameters: ImportParameters, range_bytes: int) -> Iterator[Cut]:
    """The ranges of a file. Raises JobError UNREADABLE_FILE."""
    match parameters.format:
        case Format.CSV:
            return cutting.cuts(path, size, parameters.quote.encode(), range_bytes)
        case Format.JSON_LINES:
            return cutting.cuts(path, size, b"", range_bytes)
        case Format.XML:
            return iter([Cut(0, size, 1)] if size else [])
        case Format.PARQUET:
            from spark_jobs.imports import parquet_reading  # noqa: PLC0415 - see above

            return parquet_reading.cuts(path, range_bytes)


def names_of(files: Iterable[str], parameters: ImportParameters) -> dict[str, list[str]]:
    """The names of the values in the rows of each file.

    Raises JobError: NO_HEADER; of Parquet UNKNOWN_COLUMN, COLUMN_TWICE, COLUMN_TYPE, also for a
    file whose columns are others than those of the first.
    """
    names: dict[str, list[str]] = {}
    first: tuple[str, dict[str, str]] | None = None
    for file in files:
        if file in names:
            continue
        match parameters.format:
            case Format.CSV:
                names[file] = reading.header_of(Path(file), parameters)
            case Format.JSON_LINES:
                names[file] = []
            case Format.XML:
                names[file] = xml_reading.names_of(parameters)
            case Format.PARQUET:
                from spark_jobs.imports import parquet_reading  # noqa: PLC0415 - see above

                columns = parquet_reading.columns_of(Path(file), parameters)
                first = first or (file, columns)
                _same(first, file, columns)
                names[file] = list(columns)
    return names


def rows_of(part: Range, parameters: ImportParameters, names: Sequence[str]) -> Iterator[Row]:
    """The rows of a range. Raises JobError SOURCE_CHANGED, UNREADABLE_FILE."""
    match parameters.format:
        case Format.CSV | Format.JSON_LINES:
            return reading.rows(part, parameters, len(names))
        case Format.XML:
            return xml_reading.Records(Path(part.file), parameters).rows()
        case Format.PARQUET:
            from spark_jobs.imports import parquet_reading  # noqa: PLC0415 - see above

            return parquet_reading.rows(part, names)


def glimpse(files: Sequence[tuple[Path, int]], parameters: ImportParameters) -> Glimpse:
    """Look at the first file that has anything in it. Raises JobError, as reading it all does."""
    total = sum(size for _, size in files)
    path, size = next(((path, size) for path, size in files if size), files[0])
    if not size:
        return Glimpse()
    match parameters.format:
        case Format.CSV | Format.JSON_LINES:
            return _of_text(path, size, total, parameters)
        case Format.XML:
            return _of_xml(path, total, parameters)
        case Format.PARQUET:
            return _of_parquet([path for path, _ in files], parameters)


def _of_text(path: Path, size: int, total: int, parameters: ImportParameters) -> Glimpse:
    names = names_of([str(path)], parameters)[str(path)]
    part = Range(number=0, file=str(path), begin=0, end=_end(path, size), line=1)
    rows = list(reading.rows(part, parameters, len(names)))
    count = round(total / part.end * len(rows))
    return Glimpse(rows=rows[:SAMPLES], names=names, columns=names, count=count)


def _of_xml(path: Path, total: int, parameters: ImportParameters) -> Glimpse:
    records = xml_reading.Records(path, parameters)
    rows: list[Row] = []
    count = 0
    for row in records.rows(collect=True):
        rows += [row] if count < SAMPLES else []
        count += 1
        if records.looked_at >= LOOKED_AT_BYTES:
            break
    return Glimpse(
        rows=rows,
        names=xml_reading.names_of(parameters),
        columns=list(records.paths),
        count=round(total / max(records.looked_at, 1) * count),
        facts={"root": records.root},
    )


def _of_parquet(files: Sequence[Path], parameters: ImportParameters) -> Glimpse:
    """Every footer is read: each file is held to the first one's columns, and counted."""
    from spark_jobs.imports import parquet_reading  # noqa: PLC0415 - see above

    names = names_of(map(str, files), parameters)
    path = next((path for path in files if parquet_reading.row_count(path)), files[0])
    cuts = parquet_reading.cuts(path, 1)
    part = next((Range(number=0, file=str(path), **cut._asdict()) for cut in cuts), None)
    rows = parquet_reading.rows(part, names[str(path)]) if part is not None else iter(())
    return Glimpse(
        rows=list(islice(rows, SAMPLES)),
        names=names[str(path)],
        columns=parquet_reading.all_columns(path),
        count=sum(map(parquet_reading.row_count, files)),
    )


def _end(path: Path, size: int) -> int:
    """Return the end of the last whole line of what is looked at."""
    if size <= LOOKED_AT_BYTES:
        return size
    with path.open("rb") as file:
        return file.read(LOOKED_AT_BYTES).rfind(b"\n") + 1 or LOOKED_AT_BYTES


def _same(first: tuple[str, dict[str, str]], file: str, columns: dict[str, str]) -> None:
    """Files of one run have one schema, as far as it is read."""
    name, expected = first
    for column in dict.fromkeys([*expected, *columns]):
        if column not in columns or column not in expected:
            without, having = (file, name) if column not in columns else (name, file)
            raise JobError(
                "UNKNOWN_COLUMN",
                f"{without} has no column {column!r}, and {having} has one.",
                "Map the columns that all files have, or import files of another schema apart.",
            )
        if columns[column] != expected[column]:
            raise JobError(
                "COLUMN_TYPE",
                f"{column!r} is {expected[column]} in {name}, and {columns[column]} in {file}.",
                "Import files of another schema apart, or write them with one schema.",
            )
