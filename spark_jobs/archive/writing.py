"""Writes the files of a part, and proves by reading them back that they hold its rows."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from psycopg import sql
from psycopg.errors import UndefinedTable

from spark_jobs.archive.parameters import ArchiveParameters
from spark_jobs.archive.planning import Part, Range
from spark_jobs.archive.shelving import Manifest, Shelf, damaged
from spark_jobs.archive.sources import DAY, Source, source_of
from spark_jobs.contract import Arguments, Progress, Tell
from spark_jobs.tables import keeping, parquet
from spark_jobs.tables.columns import Column, tally_sql
from spark_jobs.tables.keeping import Sealed
from spark_jobs.tables.parquet import Tally
from spark_jobs.tables.reading import Moment, moment, rows
from spark_jobs.watching import Answer, watched

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Where Spark writes, within the hidden folder.
ROWS: Final = "rows"


class ArchiveContext(NamedTuple):
    """What a part is worked on with."""

    session: "SparkSession"
    arguments: Arguments
    parameters: ArchiveParameters
    shelf: Shelf
    tell: Tell


def write(context: ArchiveContext, part: Part, work: Path) -> Manifest:
    """Write the files of a part into its hidden folder; what they hold is verified.

    Raises JobError ARCHIVE_DAMAGED where the files do not hold exactly what SQL finds.
    """
    with moment(context.arguments.database) as held:
        if not _hold(held, part):
            context.tell.say(
                f"{part.table} is gone: the cleanup removed it before it was archived."
            )
            return _manifest(context, part, (), [])
        source = source_of(held.session, context.parameters, part)
        wanted = _tally(held, source)
        _write(context, part, source, held.snapshot, work / ROWS)
    paths = sorted((work / ROWS).glob(f"{DAY}=*/*.parquet"))
    # In this order: what is read back comes from the disk, and is what is known again later.
    forced = _forced(context, work, paths)
    found = _read_back(context, source, work / ROWS, paths)
    files = [_file(context, part, number, one, found) for number, one in enumerate(forced)]
    # Of the files as the manifest names them: what is dropped is compared with that.
    total = Tally(sum(file["rows"] for file in files), sum(file["sum"] for file in files))
    if total != wanted:
        raise damaged(
            f"What was written of {part.table}",
            f"it has {total.rows:,} rows (sum {total.sum}), and the database {wanted.rows:,} "
            f"(sum {wanted.sum})",
        )
    return _manifest(context, part, source.columns, files)


def _hold(held: Moment, part: Part) -> bool:
    """Keep the table while it is read; False where it is gone."""
    name = sql.Identifier(part.table)
    try:
        with held.session.transaction():
            held.session.execute(sql.SQL("LOCK TABLE {} IN ACCESS SHARE MODE").format(name))
    except UndefinedTable:
        return False
    return True


def _tally(held: Moment, source: Source) -> Tally:
    statement = tally_sql(source.columns, source.source, source.condition)
    row = held.session.execute(statement.encode(), source.said).fetchone()
    return Tally(int(row[0]), int(row[1])) if row else Tally(0, 0)


def _write(
    context: ArchiveContext, part: Part, source: Source, snapshot: str, folder: Path
) -> None:
    database, spark_context = context.arguments.database, context.session.sparkContext
    done, count, columns = spark_context.accumulator(0), spark_context.accumulator(0), source.dated

    def read(one: Range) -> Iterator[Sequence[Any]]:
        statement, said = source.statement(one)
        for row in rows(database, snapshot, statement, said, columns):
            count.add(1)
            yield row
        done.add(1)

    def watch() -> None:
        context.tell.progress(
            Progress(stage="write", done=done.value, total=len(part.ranges), rows=count.value)
        )
        context.tell.go_on()

    own = parquet.settled(context.session)
    found = parquet.frame(own, part.ranges, columns, read)
    _watched(context, lambda: parquet.write(found, folder, by=DAY), watch)


def _forced(context: ArchiveContext, work: Path, paths: Sequence[Path]) -> list[Sealed]:
    """Each file as it lies on the disk, in the order of the paths."""
    if not paths:
        return []

    def task(path: Path) -> Sealed:
        return keeping.sealed(path, work)

    wanted = context.session.sparkContext.parallelize(list(paths), len(paths)).map(task)
    return list(_watched(context, wanted.collect, context.tell.go_on))


def _read_back(
    context: ArchiveContext, source: Source, folder: Path, paths: Sequence[Path]
) -> dict[str, Tally]:
    """What each file holds, by its day and name, out of its own values."""
    if not paths:
        return {}
    own = parquet.settled(context.session)
    found = parquet.read(own, folder, paths, source.columns)

    def watch() -> None:
        context.tell.progress(Progress(stage="check", done=0, total=len(paths)))
        context.tell.go_on()

    return _watched(context, lambda: parquet.tallies(found), watch)


def _file(
    context: ArchiveContext, part: Part, number: int, one: Sealed, found: Mapping[str, Tally]
) -> dict[str, Any]:
    """Where a file is, where it goes, what it holds, and how it is known again there."""
    place = PurePath(one.name)
    day = place.parent.name
    tally = found.get(f"{day}/{place.name}", Tally(0, 0))
    return {
        "from": one.name,
        "name": f"{day}/{context.arguments.run}-{part.number:03}-{number:05}.parquet",
        "rows": tally.rows,
        "sum": tally.sum,
        "bytes": one.bytes,
        "sha256": one.sha256,
    }


def _manifest(
    context: ArchiveContext, part: Part, columns: Sequence[Column], files: list[dict[str, Any]]
) -> Manifest:
    return {
        "version": 1,
        "run": context.arguments.run,
        "kind": str(context.parameters.kind),
        "part": part.number,
        "table": part.table,
        "at": context.parameters.at,
        "before": context.parameters.before,
        "rows": sum(file["rows"] for file in files),
        "bytes": sum(file["bytes"] for file in files),
        "columns": [[one.name, str(one.kind), one.sql] for one in columns],
        "files": files,
    }


def _watched(
    context: ArchiveContext, act: Callable[[], Answer], watch: Callable[[], None]
) -> Answer:
    watch()
    return watched(context.session, context.arguments.run, act, watch)
