"""Writes one range as lines of text, in a task of Spark: streamed, whatever its size."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple
from uuid import uuid4

from spark_jobs.exports.parameters import ExportParameters, Format
from spark_jobs.exports.planning import Range, condition_of
from spark_jobs.exports.selecting import DOCUMENTS, Selection
from spark_jobs.exports.shaping import Row, Shaped, csv_lines, header, json_lines, shaped
from spark_jobs.tables.reading import rows

ROWS_AT_ONCE: Final = 100


class Source(NamedTuple):
    """Where a task reads: the database, the snapshot that all share, and which rows."""

    database: str
    snapshot: str
    parameters: ExportParameters
    selection: Selection


def rows_of(source: Source, part: Range) -> Iterator[Row]:
    """The rows of a range as values; documents in the order of their keys."""
    return map(shaped(source.parameters, source.selection).values, raw_rows(source, part))


def raw_rows(source: Source, part: Range) -> Iterator[Row]:
    """The same as SQL gives them."""
    selection = source.selection
    condition, said = condition_of(part)
    statement = selection.statement(condition, part.table)
    if part.table == DOCUMENTS:
        statement += " ORDER BY t.key"
    return rows(
        source.database,
        source.snapshot,
        statement,
        {**selection.said, **said},
        selection.columns,
    )


def write(source: Source, part: Range, folder: Path) -> int:
    """Write the file of a range; how many rows it has.

    A task that is tried again writes the same once more: only the whole file gets its name.
    """
    parameters = source.parameters
    told = shaped(parameters, source.selection)
    place = folder / f"part-{part.number:05}.{parameters.format}"
    beside = folder / f".{place.name}-{uuid4().hex[:8]}"
    first, text = _form(parameters, told)
    count = 0
    with beside.open("w", encoding="utf-8", newline="") as file:
        file.write(first)
        for lot in _lots(rows_of(source, part)):
            file.write(text(lot))
            count += len(lot)
    beside.replace(place)
    return count


def count_rows(path: Path, parameters: ExportParameters) -> int:
    """How many rows a file has, read from it."""
    if parameters.format is Format.JSON_LINES:
        with path.open("rb") as lines:
            return sum(1 for _ in lines)
    quote, number, is_open = b'"', 0, False
    with path.open("rb") as lines:
        for line in lines:
            is_open ^= line.count(quote) % 2 == 1
            number += not is_open
    return number - 1


def _form(parameters: ExportParameters, told: Shaped) -> tuple[str, Callable[[Sequence[Row]], str]]:
    if parameters.format is Format.JSON_LINES:
        return "", json_lines(told.columns)
    return header(told.columns, parameters), csv_lines(told.columns, parameters)


def _lots(wanted: Iterable[Any]) -> Iterator[list[Any]]:
    left = iter(wanted)
    while lot := list(islice(left, ROWS_AT_ONCE)):
        yield lot
