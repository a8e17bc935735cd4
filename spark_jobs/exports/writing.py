"""Writes the file of one range in a task of Spark: streamed, whatever its size."""

from itertools import islice
from pathlib import Path
from typing import Final
from uuid import uuid4

from spark_jobs.exports.parameters import ExportParameters, Format
from spark_jobs.exports.planning import Range
from spark_jobs.exports.reading import Source, rows_of
from spark_jobs.exports.shaping import csv_lines, header, json_lines, shaped
from spark_jobs.tables import arrow

ROWS_AT_ONCE: Final = 100


def write(source: Source, part: Range, folder: Path) -> int:
    """Write the file of a range; how many rows it has.

    A task that is tried again writes the same once more: only the whole file gets its name.
    """
    place = folder / f"part-{part.number:05}.{source.parameters.format}"
    beside = folder / f".{place.name}-{uuid4().hex[:8]}"
    is_parquet = source.parameters.format is Format.PARQUET
    count = _write_parquet(source, part, beside) if is_parquet else _write(source, part, beside)
    beside.replace(place)
    return count


def _write_parquet(source: Source, part: Range, path: Path) -> int:
    columns = shaped(source.parameters, source.selection).columns
    return arrow.write(path, columns, rows_of(source, part))


def _write(source: Source, part: Range, path: Path) -> int:
    parameters = source.parameters
    columns = shaped(parameters, source.selection).columns
    is_json = parameters.format is Format.JSON_LINES
    text = json_lines(columns) if is_json else csv_lines(columns, parameters)
    count = 0
    with path.open("w", encoding="utf-8", newline="") as file:
        file.write("" if is_json else header(columns, parameters))
        rows = rows_of(source, part)
        while lot := list(islice(rows, ROWS_AT_ONCE)):
            file.write(text(lot))
            count += len(lot)
    return count


def count_rows(path: Path, parameters: ExportParameters) -> int:
    """Count the rows of a file by reading it."""
    if parameters.format is Format.JSON_LINES:
        with path.open("rb") as lines:
            return sum(1 for _ in lines)
    quote, number, is_open = b'"', 0, False
    with path.open("rb") as lines:
        for line in lines:
            is_open ^= line.count(quote) % 2 == 1
            number += not is_open
    return number - 1
