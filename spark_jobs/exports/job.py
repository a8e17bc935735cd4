"""The job itself: plan, write each range in a task of Spark, read the files back, move them.

Into a queue there is another road: `to_queue`.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import psycopg

from spark_jobs.contract import Arguments, Progress, Report, Tell
from spark_jobs.exports import planning, to_queue, writing
from spark_jobs.exports.parameters import ExportParameters, Format
from spark_jobs.exports.planning import Plan, Range
from spark_jobs.exports.selecting import Selection, selection
from spark_jobs.exports.shaping import Row, shaped
from spark_jobs.exports.writing import Source
from spark_jobs.fencing import apply, claimed
from spark_jobs.problems import unbalanced
from spark_jobs.tables import keeping, parquet
from spark_jobs.tables.reading import moment
from spark_jobs.watching import watched

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Its first sign hides it from readers of whole folders.
MANIFEST: Final = "_manifest.json"
# So many files are told in a run's facts; the manifest has all.
LISTED: Final = 200
Manifest = Mapping[str, Any]


class Work(NamedTuple):
    """What there is to do, and the hidden folder that takes it until it is whole."""

    parameters: ExportParameters
    selection: Selection
    plan: Plan
    folder: Path


def run(session: "SparkSession", arguments: Arguments, tell: Tell) -> Report:
    """Export everything that is wanted. Raises JobError, Stopped, and the database's errors."""
    parameters = ExportParameters.of(arguments.parameters)
    if parameters.target is not None:
        return to_queue.run(session, arguments, parameters, tell)
    parent = Path(parameters.folder)
    with psycopg.connect(arguments.database, autocommit=True) as database, keeping.room(parent):
        with claimed(database, arguments) as claim:
            found = keeping.read_json(parent / arguments.run / MANIFEST)
            if claim.applied:
                return _report(arguments, claim.counts, found or {})
            folder = keeping.work_folder(parent, arguments.run)
        try:
            # What is in its place is whole: its driver died before it could say so.
            manifest = found or _written(session, arguments, parameters, folder, tell)
            counts = _keep(database, arguments, None if found else folder, manifest)
        finally:
            keeping.remove(folder)
    return _report(arguments, counts, manifest)


def _written(
    session: "SparkSession",
    arguments: Arguments,
    parameters: ExportParameters,
    folder: Path,
    tell: Tell,
) -> Manifest:
    """Write all files, read them back, and say in one more what they are."""
    with moment(arguments.database) as held:
        made = planning.planned(held, arguments, parameters, tell)
        work = Work(parameters, selection(parameters), made, folder)
        count = planning.count(held, work.selection)
        tell.say(f"{count:,} rows in {len(made.ranges):,} ranges.")
        _write(session, arguments, work, held.snapshot, tell)
    files = _read_back(session, arguments, work, tell)
    manifest = {
        "version": 1,
        "run": arguments.run,
        "at": made.at,
        "what": {n: v for n, v in arguments.parameters.items() if n != "folder"},
        "counted": count,
        "rows": sum(file["rows"] for file in files),
        "bytes": sum(file["bytes"] for file in files),
        "files": files,
    }
    keeping.write_json(folder / MANIFEST, manifest)
    return manifest


def _write(
    session: "SparkSession", arguments: Arguments, work: Work, snapshot: str, tell: Tell
) -> None:
    parameters, chosen, plan, folder = work
    source = Source(arguments.database, snapshot, parameters, chosen)
    context, total = session.sparkContext, len(plan.ranges)
    done, rows = context.accumulator(0), context.accumulator(0)

    def watch() -> None:
        tell.progress(Progress(stage="write", done=done.value, total=total, rows=rows.value))
        tell.go_on()

    def task(part: Range) -> None:
        rows.add(writing.write(source, part, folder))
        done.add(1)

    def read(part: Range) -> Iterator[Row]:
        for row in writing.rows_of(source, part):
            rows.add(1)
            yield row
        done.add(1)

    if parameters.format is Format.PARQUET:
        own, columns = parquet.settled(session), shaped(parameters, chosen).columns
        found = parquet.frame(own, plan.ranges, columns, read)
        watched(session, arguments.run, lambda: parquet.write(found, folder / "rows"), watch)
        _lift(folder)
    else:
        wanted = context.parallelize(plan.ranges, total)
        watched(session, arguments.run, lambda: wanted.foreach(task), watch)
    watch()


def _lift(folder: Path) -> None:
    """Give Spark's files names of our own, and let go of what it writes beside them."""
    for number, path in enumerate(sorted((folder / "rows").glob("*.parquet"))):
        path.rename(folder / f"part-{number:05}.{Format.PARQUET}")
    keeping.remove(folder / "rows")


def _read_back(
    session: "SparkSession", arguments: Arguments, work: Work, tell: Tell
) -> list[dict[str, Any]]:
    """Each file as it is on the disk: its rows, its bytes, their SHA-256."""
    parameters, folder = work.parameters, work.folder
    names = sorted(path.name for path in folder.glob("part-*"))
    known = _counts(session, work)
    done = session.sparkContext.accumulator(0)

    def task(name: str) -> dict[str, Any]:
        found = keeping.sealed(folder / name, folder)
        rows = known.get(name, 0)
        if parameters.format is not Format.PARQUET:
            rows = writing.count_rows(folder / name, parameters)
        done.add(1)
        return {"name": name, "rows": rows, "bytes": found.bytes, "sha256": found.sha256}

    def watch() -> None:
        tell.progress(Progress(stage="check", done=done.value, total=len(names)))
        tell.go_on()

    wanted = session.sparkContext.parallelize(names, max(len(names), 1)).map(task)
    files: Sequence[dict[str, Any]] = watched(session, arguments.run, wanted.collect, watch)
    watch()
    return list(files)


def _counts(session: "SparkSession", work: Work) -> dict[str, int]:
    if work.parameters.format is not Format.PARQUET:
        return {}
    return parquet.counts(parquet.settled(session), work.folder)


def _keep(
    database: psycopg.Connection[Any], arguments: Arguments, folder: Path | None, manifest: Manifest
) -> Mapping[str, int]:
    """Move the whole into place, and write down that it is there; only while the run is ours.

    A driver that dies between the two leaves a whole folder, and the next one finds it.
    """
    counts = {"read": manifest["counted"], "sent": manifest["rows"], "rejected": 0, "skipped": 0}
    if counts["read"] != counts["sent"]:
        raise unbalanced(counts)
    with claimed(database, arguments):
        if folder is not None:
            keeping.force(folder)
            folder.rename(folder.parent / arguments.run)
            keeping.force(folder.parent)
        apply(database, arguments.run, counts)
    return counts


def _report(arguments: Arguments, counts: Mapping[str, int], manifest: Manifest) -> Report:
    files = manifest.get("files", [])
    facts = {
        "folder": f"exports/{arguments.run}",
        "files": len(files),
        "bytes": manifest.get("bytes", 0),
        "at": manifest.get("at", ""),
        "listed": [{"name": f["name"], "bytes": f["bytes"]} for f in files[:LISTED]],
    }
    return Report.done(arguments, counts, facts)
