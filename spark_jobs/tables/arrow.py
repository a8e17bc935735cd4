"""Parquet by Arrow, for tasks that share no folder: the same columns as Spark's own writer makes.

Arrow is imported where it is used, as in `spark_jobs.storage`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from spark_jobs.tables.columns import Column, ColumnKind, digest, summed
from spark_jobs.tables.parquet import GROUP_BYTES, Tally

ROWS_AT_ONCE: Final = 100


class Writer:
    """A file that is written row by row; a group of rows is held in memory until it is full.

    It is whole once the block has ended without an exception.
    """

    def __init__(
        self, path: Path, columns: Sequence[Column], metadata: Mapping[str, str] | None = None
    ) -> None:
        """`metadata` go into the file as its own."""
        from pyarrow.parquet import ParquetWriter  # noqa: PLC0415 - see above

        self._schema = _schema(columns).with_metadata(metadata or None)
        self._file = ParquetWriter(path, self._schema)
        self._rows: list[Sequence[Any]] = []
        self._batches: list[Any] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.close()

    def add(self, row: Sequence[Any]) -> None:
        self._rows.append(row)
        if len(self._rows) >= ROWS_AT_ONCE:
            self._pack()
            if sum(batch.nbytes for batch in self._batches) >= GROUP_BYTES:
                self._flush()

    def close(self) -> None:
        """Write what is left, and the end of the file."""
        self._pack()
        self._flush()
        self._file.close()  # Once more, it does nothing.

    def _pack(self) -> None:
        from pyarrow import RecordBatch, array  # noqa: PLC0415 - see above

        if self._rows:
            arrays = [
                array([row[place] for row in self._rows], field.type)
                for place, field in enumerate(self._schema)
            ]
            self._batches.append(RecordBatch.from_arrays(arrays, schema=self._schema))
            self._rows = []

    def _flush(self) -> None:
        from pyarrow import Table  # noqa: PLC0415 - see above

        if self._batches:
            self._file.write_table(Table.from_batches(self._batches, self._schema))
            self._batches = []


def write(path: Path, columns: Sequence[Column], rows: Iterable[Sequence[Any]]) -> int:
    """Write a file; how many rows it has."""
    count = 0
    with Writer(path, columns) as writer:
        for row in rows:
            writer.add(row)
            count += 1
    return count


def read(opened: Any, columns: Sequence[Column]) -> Iterator[tuple[Any, ...]]:
    """The rows as they were before they were written, of a path or of what Arrow has opened."""
    from pyarrow import int64  # noqa: PLC0415 - see above
    from pyarrow.parquet import ParquetFile  # noqa: PLC0415 - see above

    names = [column.name for column in columns]
    with ParquetFile(opened) as file:
        for batch in file.iter_batches(ROWS_AT_ONCE, columns=names, use_threads=False):
            values = [
                (batch[c.name].cast(int64()) if c.kind is ColumnKind.MOMENT else batch[c.name])
                for c in columns
            ]
            yield from zip(*(one.to_pylist() for one in values), strict=True)


def tally(path: Path, columns: Sequence[Column]) -> Tally:
    """Sum up the rows of a file out of its own values."""
    rows = total = 0
    for values in read(path, columns):
        rows, total = rows + 1, total + summed(digest(values))
    return Tally(rows, total)


def _schema(columns: Sequence[Column]) -> Any:
    import pyarrow as pa  # noqa: PLC0415 - see above

    types = {
        ColumnKind.TEXT: pa.string(),
        ColumnKind.JSON: pa.string(),
        ColumnKind.WHOLE: pa.int64(),
        ColumnKind.FLAG: pa.bool_(),
        ColumnKind.MOMENT: pa.timestamp("us", tz="UTC"),
        ColumnKind.BYTES: pa.binary(),
    }
    return pa.schema([(column.name, types[column.kind]) for column in columns])
