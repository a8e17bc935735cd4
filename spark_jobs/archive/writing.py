"""Writes the files of a part, and proves by reading them back that they hold its rows."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from spark_jobs.archive.hiding import hiding_of
from spark_jobs.archive.parameters import ArchiveParameters
from spark_jobs.archive.planning import Part, Range
from spark_jobs.archive.shelving import FileEntry, Manifest, Shelf, damaged
from spark_jobs.archive.sources import DAY, Source, source_of
from spark_jobs.archive.task_writing import write_files
from spark_jobs.tables import keeping, parquet
from spark_jobs.tables.columns import Column, tally_sql
from spark_jobs.tables.keeping import Sealed
from spark_jobs.tables.parquet import Tally
from spark_jobs.tables.reading import Moment, hold, moment, rows
from spark_jobs.watching import watched
from spark_jobs.work import Work

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Each file as it was read back, and the tally that has to be what SQL finds.
Proven = tuple[list[FileEntry], Tally]
# The folder that Spark writes into, within the hidden one.
ROWS: Final = "rows"


class Archive(NamedTuple):
    """The means to work on a part; `spark` has the settings that its files are written by."""

    work: Work
    parameters: ArchiveParameters
    shelf: Shelf
    spark: "SparkSession"


def write(archive: Archive, part: Part, folder: str) -> Manifest:
    """Write the files of a part into its hidden folder; what they hold is verified.

    Raises JobError ARCHIVE_DAMAGED where the files do not hold exactly what SQL finds, and
    STORAGE_FAILED.
    """
    work = archive.work
    with moment(work.arguments.database) as held:
        if not hold(held.session, part.table):
            work.tell.say(f"{part.table} is gone: the cleanup removed it before it was archived.")
            return _manifest(archive, part, (), [])
        source = source_of(held.session, archive.parameters, part)
        expected = _tally(held, source)
        proven = _written(archive, part, source, held.snapshot, folder)
    # Not while the moment is held: files are read back for as long as it takes.
    written, total = proven()
    files = [
        {**file, "name": f"{PurePath(file['from']).parent.name}/{_name(archive, part, number)}"}
        for number, file in enumerate(written)
    ]
    if total != expected:
        raise damaged(
            f"What was written of {part.table}",
            f"it has {total.rows:,} rows (sum {total.sum}), and the database {expected.rows:,} "
            f"(sum {expected.sum})",
        )
    return _manifest(archive, part, source.columns, files)


def _written(
    archive: Archive, part: Part, source: Source, snapshot: str, folder: str
) -> Callable[[], Proven]:
    """Write the files; what is returned proves them by reading them back, unless tasks have."""
    shared = archive.shelf.shared_folder(folder)
    hide = hiding_of(archive.parameters, source.columns)
    if hide is None and shared is not None:
        _write(archive, part, source, snapshot, shared / ROWS)
        return partial(_read_back, archive, source, shared)
    keep = archive.shelf.keeping(folder, source.columns)
    proven = write_files(archive.work, source, snapshot, part.ranges, keep, hide=hide)
    return lambda: proven


def _tally(held: Moment, source: Source) -> Tally:
    statement = tally_sql(source.columns, source.source, source.condition)
    row = held.session.execute(statement.encode(), source.values).fetchone()
    return Tally(int(row[0]), int(row[1])) if row else Tally(0, 0)


def _write(archive: Archive, part: Part, source: Source, snapshot: str, folder: Path) -> None:
    work = archive.work
    done, count = work.counter(), work.counter()
    database, columns = work.arguments.database, source.dated

    def read(one: Range) -> Iterator[Sequence[Any]]:
        statement, values = source.statement(one)
        for row in rows(database, snapshot, statement, values, columns):
            count.add(1)
            yield row
        done.add(1)

    frame = parquet.frame(archive.spark, part.ranges, columns, read)
    act = partial(parquet.write, frame, folder, by=DAY)
    work.watched("write", len(part.ranges), act, lambda: (done.value, count.value))


def _forced(work: Work, folder: Path, paths: Sequence[Path]) -> list[Sealed]:
    """Each file as it lies on the disk, in the order of the paths."""

    def task(path: Path) -> Sealed:
        return keeping.sealed(path, folder)

    tasks = work.session.sparkContext.parallelize(list(paths), len(paths)).map(task)
    return list(watched(work.session, work.owned.run, tasks.collect, work.tell.go_on))


def _read_back(archive: Archive, source: Source, folder: Path) -> Proven:
    """The entry of each file that Spark wrote, made of the file itself."""
    paths = sorted((folder / ROWS).glob(f"{DAY}=*/*.parquet"))
    if not paths:
        return [], Tally(0, 0)
    # In this order: what is read back comes from the disk, and is what is known again later.
    forced = _forced(archive.work, folder, paths)
    frame = parquet.read(archive.spark, folder / ROWS, paths, source.columns)
    act = partial(parquet.tallies, frame)
    tallies = archive.work.watched("check", len(paths), act, lambda: (0, 0))
    files = [_entry(file, tallies) for file in forced]
    # Of the files as the manifest names them: what is dropped is compared with that.
    return files, Tally(sum(file["rows"] for file in files), sum(file["sum"] for file in files))


def _entry(file: Sealed, tallies: Mapping[str, Tally]) -> FileEntry:
    tally = tallies.get("/".join(PurePath(file.name).parts[-2:]), Tally(0, 0))
    return {
        "from": file.name,
        "rows": tally.rows,
        "sum": tally.sum,
        "bytes": file.bytes,
        "sha256": file.sha256,
    }


def _name(archive: Archive, part: Part, number: int) -> str:
    return f"{archive.shelf.run}-{part.number:03}-{number:05}.parquet"


def _manifest(
    archive: Archive, part: Part, columns: Sequence[Column], files: list[dict[str, Any]]
) -> Manifest:
    return {
        "version": 1,
        "run": archive.shelf.run,
        "installation": archive.shelf.installation,
        "kind": str(archive.parameters.kind),
        "part": part.number,
        "table": part.table,
        "at": archive.parameters.at,
        "before": archive.parameters.before,
        "masked": archive.parameters.masked,
        "rows": sum(file["rows"] for file in files),
        "bytes": sum(file["bytes"] for file in files),
        "columns": [[column.name, str(column.kind), column.sql] for column in columns],
        "files": files,
    }
