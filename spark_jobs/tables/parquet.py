"""Parquet by Spark's own writer and reader, whatever the session is set to."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from spark_jobs.tables.columns import Column, ColumnKind, digest, summed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Part = TypeVar("Part")
# A task keeps so much of a file in memory before it writes.
GROUP_BYTES: Final = 16 * 2**20
# Settings under which rows could be left out or altered, or a task's memory grow with them.
_FIXED: Final = {
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.columnarReaderBatchSize": "128",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.files.maxRecordsPerFile": "0",
    "spark.sql.maxConcurrentOutputFileWriters": "8",
}


class Tally(NamedTuple):
    """The number of rows of a file, and the sum of their digests' beginnings."""

    rows: int
    sum: int


def settled(session: "SparkSession") -> "SparkSession":
    """The same Spark under settings of our own; those of others are not touched."""
    own = session.newSession()
    for name, value in _FIXED.items():
        own.conf.set(name, value)
    return own


def frame(
    session: "SparkSession",
    parts: Sequence[Part],
    columns: Sequence[Column],
    read: Callable[[Part], Iterable[Sequence[Any]]],
) -> "DataFrame":
    """The rows of all parts, each read by a task of its own."""
    rows = session.sparkContext.parallelize(parts, max(len(parts), 1)).flatMap(read)
    schema = ", ".join(f"{_named(column)} {column.spark_type}" for column in columns)
    raw = session.createDataFrame(rows, schema, verifySchema=False)
    return raw.selectExpr(*_converted(columns, "timestamp_micros"))


def write(rows: "DataFrame", folder: Path, by: str = "") -> None:
    """Write them into a folder that is not there yet, a folder within it for each value of `by`."""
    writer = rows.write.option("parquet.block.size", GROUP_BYTES)
    if by:
        writer = writer.partitionBy(by)
    writer.parquet(_address(folder))


def read(
    session: "SparkSession", folder: Path, paths: Sequence[Path], columns: Sequence[Column]
) -> "DataFrame":
    """The columns of these files as they were before they were written, and `file`, its name."""
    rows = session.read.option("basePath", _address(folder)).parquet(*map(_address, paths))
    return rows.selectExpr(*_converted(columns, "unix_micros"), "_metadata.file_path AS file")


def counts(session: "SparkSession", folder: Path) -> dict[str, int]:
    """Count the rows of a folder's files, by name; a file without any is left out."""
    rows = session.read.parquet(_address(folder)).selectExpr("_metadata.file_name AS file")
    return {str(row["file"]): int(row["count"]) for row in rows.groupBy("file").count().collect()}


def tallies(rows: "DataFrame") -> dict[str, Tally]:
    """Sum up the rows of `read`, by the last two parts of each file's path.

    One task gives the files that it writes into several folders the same name.
    """
    sums: dict[str, Tally] = {}
    for name, count, total in rows.rdd.mapPartitions(_tallied).collect():
        so_far = sums.get(name, Tally(0, 0))
        sums[name] = Tally(so_far.rows + count, so_far.sum + total)
    return sums


def _tallied(rows: Iterable[Any]) -> Iterator[tuple[str, int, int]]:
    sums: dict[str, Tally] = {}
    for *values, file in rows:
        so_far = sums.get(file, Tally(0, 0))
        sums[file] = Tally(so_far.rows + 1, so_far.sum + summed(digest(values)))
    return (("/".join(file.rsplit("/", 2)[1:]), *tally) for file, tally in sums.items())


def _address(path: Path) -> str:
    # Not as_uri: Hadoop takes signs as they are.
    return f"file://{path}"


def _named(column: Column) -> str:
    return f"`{column.name.replace('`', '``')}`"


def _converted(columns: Sequence[Column], function: str) -> Iterator[str]:
    """The columns in Spark's SQL; what is a moment goes through the function."""
    for column in columns:
        name = _named(column)
        yield f"{function}({name}) AS {name}" if column.kind is ColumnKind.MOMENT else name
