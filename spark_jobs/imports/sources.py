"""Each format's way to be cut, read and looked at, behind one door.

What reads Parquet is imported where a file of it is read: Arrow starts threads, which no process
may have that workers are forked from.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from spark_jobs.contract import SAMPLES, Heed, unheeded
from spark_jobs.errors import JobError
from spark_jobs.imports import cutting, reading, xml_reading
from spark_jobs.imports.cutting import Cut, Passed
from spark_jobs.imports.parameters import Format, ImportParameters
from spark_jobs.imports.rows import Range, Row
from spark_jobs.storage import DISK, Storage

# So much of the first file is looked at; rows beyond it are estimated by the size of these.
LOOKED_AT_BYTES: Final = 2**18
# How often a file is read to be cut, at most: in CSV quotes are counted first.
PASSES: Final[Mapping[Format, int]] = {
    Format.CSV: 2,
    Format.JSON_LINES: 1,
    Format.XML: 1,
    Format.PARQUET: 1,
}
# Of so many files of Parquet the footers are looked at: each object is some requests.
MOST_FOOTERS: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Glimpse:
    """The first rows of a source, the values they have, all that a map may name, how many rows.

    `count` is an estimate, None where nothing tells it. `facts` are what else was noticed: of XML
    the element around all others.
    """

    rows: Sequence[Row] = ()
    names: Sequence[str] = ()
    columns: Sequence[str] = ()
    count: int | None = 0
    facts: Mapping[str, str] = field(default_factory=dict)


def cuts_of(
    file: tuple[str, int],
    parameters: ImportParameters,
    range_bytes: int,
    storage: Storage,
    passed: Passed,
) -> Iterator[Cut]:
    """The ranges of a file. Raises JobError UNREADABLE_FILE, and what opening it does."""
    name, size = file
    match parameters.format:
        case Format.CSV | Format.JSON_LINES:
            is_csv = parameters.format is Format.CSV
            with storage.open(name) as opened:
                quote = parameters.quote.encode() if is_csv else b""
                yield from cutting.cuts(opened, size, quote, range_bytes, passed)
        case Format.XML:
            yield from [Cut(0, size, 1)] if size else []
        case Format.PARQUET:
            from spark_jobs.imports import parquet_reading  # noqa: PLC0415 - see above

            yield from parquet_reading.cuts(name, range_bytes, storage)


def names_of(
    files: Iterable[str],
    parameters: ImportParameters,
    storage: Storage = DISK,
    heed: Heed = unheeded,
) -> dict[str, list[str]]:
    """The names of the values in the rows of each file.

    Raises JobError: NO_HEADER; of Parquet UNKNOWN_COLUMN, COLUMN_TWICE, COLUMN_TYPE, also for a
    file whose columns are others than those of the first.
    """
    names: dict[str, list[str]] = {}
    first: tuple[str, dict[str, str]] | None = None
    for file in files:
        if file in names:
            continue
        heed(None)
        match parameters.format:
            case Format.CSV:
                names[file] = reading.header_of(file, parameters, storage)
            case Format.JSON_LINES:
                names[file] = []
            case Format.XML:
                names[file] = xml_reading.names_of(parameters)
            case Format.PARQUET:
                from spark_jobs.imports import parquet_reading  # noqa: PLC0415 - see above

                columns, _ = parquet_reading.facts_of(file, parameters, storage)
                first = first or (file, columns)
                _same(first, file, columns)
                names[file] = list(columns)
    return names


def rows_of(
    part: Range, parameters: ImportParameters, names: Sequence[str], storage: Storage = DISK
) -> Iterator[Row]:
    """The rows of a range. Raises JobError SOURCE_CHANGED, UNREADABLE_FILE."""
    match parameters.format:
        case Format.CSV | Format.JSON_LINES:
            return reading.rows(part, parameters, len(names), storage)
        case Format.XML:
            return xml_reading.Records(part.file, parameters, storage).rows()
        case Format.PARQUET:
            from spark_jobs.imports import parquet_reading  # noqa: PLC0415 - see above

            return parquet_reading.rows(part, names, storage)


def glimpse(
    files: Sequence[tuple[str, int]], parameters: ImportParameters, storage: Storage = DISK
) -> Glimpse:
    """Look at the first file that has anything in it. Raises JobError, as reading it all does."""
    total = sum(size for _, size in files)
    name, size = next(((name, size) for name, size in files if size), files[0])
    if not size:
        return Glimpse()
    match parameters.format:
        case Format.CSV | Format.JSON_LINES:
            return _of_text((name, size), total, parameters, storage)
        case Format.XML:
            return _of_xml((name, size), total, parameters, storage)
        case Format.PARQUET:
            return _of_parquet(files, total, parameters, storage)


def _of_text(
    file: tuple[str, int], total: int, parameters: ImportParameters, storage: Storage
) -> Glimpse:
    name, size = file
    names = names_of([name], parameters, storage)[name]
    part = Range(number=0, file=name, begin=0, end=_end(name, size, storage), line=1)
    rows = list(reading.rows(part, parameters, len(names), storage))
    count = round(total / part.end * len(rows))
    return Glimpse(rows=rows[:SAMPLES], names=names, columns=names, count=count)


def _of_xml(
    file: tuple[str, int], total: int, parameters: ImportParameters, storage: Storage
) -> Glimpse:
    name, size = file
    records = xml_reading.Records(name, parameters, storage)
    rows: list[Row] = []
    count = 0
    for row in records.rows(collect=True, most_bytes=LOOKED_AT_BYTES):
        rows += [row] if count < SAMPLES else []
        count += 1
        if records.looked_at >= LOOKED_AT_BYTES:
            break
    # None in the beginning: there may be some behind it.
    is_known = count > 0 or records.looked_at >= size
    return Glimpse(
        rows=rows,
        names=xml_reading.names_of(parameters),
        columns=list(records.paths),
        count=round(total / max(records.looked_at, 1) * count) if is_known else None,
        facts={"root": records.root},
    )


def _of_parquet(
    files: Sequence[tuple[str, int]], total: int, parameters: ImportParameters, storage: Storage
) -> Glimpse:
    """The first files are held to the very first one's columns, and counted by their footers."""
    from spark_jobs.imports import parquet_reading  # noqa: PLC0415 - see above

    looked_at = files[:MOST_FOOTERS]
    counts: dict[str, int] = {}
    first: tuple[str, dict[str, str]] | None = None
    for name, _ in looked_at:
        columns, counts[name] = parquet_reading.facts_of(name, parameters, storage)
        first = first or (name, columns)
        _same(first, name, columns)
    name = next((name for name in counts if counts[name]), files[0][0])
    names = [] if first is None else list(first[1])
    cuts = parquet_reading.cuts(name, 1, storage)
    part = next((Range(number=0, file=name, **cut._asdict()) for cut in cuts), None)
    rows = iter(()) if part is None else parquet_reading.rows(part, names, storage)
    return Glimpse(
        rows=list(islice(rows, SAMPLES)),
        names=names,
        columns=parquet_reading.all_columns(name, storage),
        count=round(sum(counts.values()) * total / sum(size for _, size in looked_at)),
    )


def _end(name: str, size: int, storage: Storage) -> int:
    """Return the end of the last whole line of what is looked at."""
    if size <= LOOKED_AT_BYTES:
        return size
    with storage.open(name) as file:
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
