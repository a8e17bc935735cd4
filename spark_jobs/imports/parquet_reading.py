"""Reads rows of Parquet: ranges are row groups, planned from the footers, and read in portions.

Columns are found by their names, each value is what JSON has of it (`arrow_values`).
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from itertools import count
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import compute, types

from spark_jobs.errors import JobError
from spark_jobs.imports.arrow_values import category, values_of
from spark_jobs.imports.cutting import Cut
from spark_jobs.imports.parameters import ImportParameters
from spark_jobs.imports.rows import Range, Row, place_of
from spark_jobs.storage import DISK, Storage

# A portion is so many rows at most, fewer where rows are large.
PORTION_ROWS: Final = 10_000
PORTION_BYTES: Final = 4 * 2**20
Opening = Callable[..., AbstractContextManager[Any]]
"""Opens the file anew, with options of Arrow's."""


def cuts(path: str, range_bytes: int, storage: Storage = DISK) -> Iterator[Cut]:
    """Row groups, several together where they are small. Raises JobError UNREADABLE_FILE."""
    facts = _footer(path, storage)
    begin, line, rows, size = 0, 1, 0, 0
    for number in range(facts.num_row_groups):
        group = facts.row_group(number)
        rows, size = rows + group.num_rows, size + group.total_byte_size
        if rows and (size >= range_bytes or number == facts.num_row_groups - 1):
            yield Cut(begin, number + 1, line)
            begin, line, rows, size = number + 1, line + rows, 0, 0


def all_columns(path: str, storage: Storage = DISK) -> list[str]:
    """The names of a file's columns. Raises JobError UNREADABLE_FILE."""
    with _opened(path, storage) as file:
        return list(file.schema_arrow.names)


def facts_of(
    path: str, parameters: ImportParameters, storage: Storage = DISK
) -> tuple[dict[str, str], int]:
    """The columns that are read, each with what it has in JSON, and the count of rows.

    The columns are those of the map, else all. Raises JobError: UNKNOWN_COLUMN and COLUMN_TWICE for
    a column of the map, COLUMN_TYPE for one that no JSON document can hold, UNREADABLE_FILE.
    """
    with _opened(path, storage) as file:
        schema, count_of_rows = file.schema_arrow, int(file.metadata.num_rows)
    types = {name: category(schema.field(place).type) for place, name in enumerate(schema.names)}
    wanted = dict.fromkeys(column.source for column in parameters.columns) or types
    kinds: dict[str, str] = {}
    for name in wanted:
        place_of(name, schema.names, path)
        if not types[name]:
            raise JobError(
                "COLUMN_TYPE",
                f"The column {name!r} of {path} is {schema.field(name).type}, which no JSON "
                "document can hold.",
                "Leave the column out of the map, or write it with another type.",
            )
        kinds[name] = types[name]
    return kinds, count_of_rows


def rows(part: Range, names: Sequence[str], storage: Storage = DISK) -> Iterator[Row]:
    """The rows of a range, with the values of these columns. Raises JobError UNREADABLE_FILE."""
    numbers = count(part.line)
    groups = list(range(part.begin, part.end))
    with _opened(part.file, storage) as file:
        opening = partial(_opened, part.file, storage)
        portions = file.iter_batches(
            batch_size=_portion(opening, file.metadata, groups, names),
            row_groups=groups,
            columns=list(names),
            use_threads=False,
        )
        for portion in portions:
            # Columns come in the file's order, not in the one they were asked for in.
            places = map(portion.schema.get_field_index, names)
            columns = [values_of(portion.column(place)) for place in places]
            # The numbers come last: none of them is drawn for a row that is not there.
            for values, line in zip(zip(*columns, strict=True), numbers, strict=False):
                yield Row(line, "", values)


def _portion(opening: Opening, facts: Any, groups: Sequence[int], names: Sequence[str]) -> int:
    """Return how many rows to read at a time, whichever of them come together."""
    rows: int = sum(facts.row_group(number).num_rows for number in groups)
    size: int = sum(facts.row_group(number).total_byte_size for number in groups)
    row = size / max(rows, 1) + max(
        (_repeatable(opening, facts, one, names) for one in groups), default=0
    )
    return max(1, min(PORTION_ROWS, int(PORTION_BYTES / max(row, 1))))


def _repeatable(opening: Opening, facts: Any, group: int, names: Sequence[str]) -> float:
    """Return how many bytes each row could have of values that the row group stores only once.

    A dictionary holds a value once for all rows that have it: 1 MB in the file can be as much in
    each of 100,000 rows. The footer does not tell how long its values are.
    """
    told = facts.row_group(group)
    columns = [told.column(place) for place in range(told.num_columns)]
    once: dict[str, float] = {
        column.path_in_schema: column.num_values / max(told.num_rows, 1)
        for column in columns
        if column.physical_type == "BYTE_ARRAY" and column.has_dictionary_page
    }
    if not once:
        return 0
    with opening(read_dictionary=list(once)) as file:
        first = next(file.iter_batches(1, [group], columns=list(names), use_threads=False), None)
    found = [] if first is None else [_longest(column) for column in first.columns]
    return sum(found) * max(1, *once.values())


def _longest(array: Any) -> int:
    """Return the length in bytes of the longest values in an array's dictionaries, added up."""
    if types.is_dictionary(array.type):
        longest = compute.max(compute.binary_length(array.dictionary)).as_py()
        return int(longest or 0)
    if types.is_struct(array.type):
        return sum(map(_longest, array.flatten()))
    if types.is_map(array.type):
        return _longest(array.keys) + _longest(array.items)
    if types.is_list(array.type) or types.is_large_list(array.type):
        return _longest(array.values)
    return 0


def _footer(path: str, storage: Storage) -> Any:
    with _opened(path, storage) as file:
        return file.metadata


@contextmanager
def _opened(path: str, storage: Storage, **options: Any) -> Iterator[Any]:
    try:
        # Not read ahead: a column of a whole row group would lie in memory.
        with pq.ParquetFile(storage.arrow(path), pre_buffer=False, **options) as file:
            yield file
    except (pa.ArrowException, OSError) as e:
        raise JobError(
            "UNREADABLE_FILE",
            f"{path} cannot be read as Parquet: {str(e)[:300]}.",
            "Look whether it is whole, and of the format that the import was asked for.",
        ) from e
