"""The job itself: part by part, its files are written, verified and placed; then its rows go."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import psycopg
from psycopg.errors import LockNotAvailable

from spark_jobs.archive import planning
from spark_jobs.archive.dropping import drop
from spark_jobs.archive.parameters import ArchiveParameters
from spark_jobs.archive.planning import Part, Plan
from spark_jobs.archive.shelving import Manifest, Shelf
from spark_jobs.archive.writing import ArchiveContext, write
from spark_jobs.contract import Arguments, Report, Tell
from spark_jobs.fencing import apply, claimed
from spark_jobs.problems import JobError
from spark_jobs.tables import keeping

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Session = psycopg.Connection[Any]
# A driver that died leaves the lock when the database has noticed.
_WAIT: Final = "SET LOCAL lock_timeout = '60s'"
_ALONE: Final = "SELECT pg_advisory_lock(hashtextextended('sluice archive ' || %s, 0))"


def run(session: "SparkSession", arguments: Arguments, tell: Tell) -> Report:
    """Archive what is old enough. Raises JobError, Stopped, and the database's errors."""
    parameters = ArchiveParameters.of(arguments.parameters)
    shelf = Shelf(Path(parameters.folder) / parameters.kind, arguments.run)
    with psycopg.connect(arguments.database, autocommit=True) as database:
        with claimed(database, arguments) as claim:
            if claim.applied:
                return _report(arguments, parameters, shelf.all_ended())
        with keeping.room(shelf.folder):
            shelf.make()
            _be_alone(database, parameters, shelf)
            context = ArchiveContext(session, arguments, parameters, shelf, tell)
            ended = [
                _archive(context, database, part) for part in _planned(context, database).parts
            ]
        report = _report(arguments, parameters, ended)
        counts = {"read": report.read, "sent": report.sent, "skipped": report.skipped}
        with claimed(database, arguments):
            apply(database, arguments.run, {**counts, "rejected": 0})
    return report


def _be_alone(database: Session, parameters: ArchiveParameters, shelf: Shelf) -> None:
    """No other run archives this kind: what two of them read would be in the archive twice."""
    try:
        with database.transaction():
            database.execute(_WAIT)
            database.execute(_ALONE, [str(parameters.kind)])
    except LockNotAvailable:
        raise JobError(
            "ARCHIVE_BUSY",
            f"Another run archives {parameters.kind} at this moment.",
            "Let this one go on when that one has ended.",
        ) from None
    others = shelf.others()
    if others:
        raise JobError(
            "ARCHIVE_UNFINISHED",
            f"The run {others[0]} has archived {parameters.kind} and did not come to drop them "
            "here: they would be archived twice.",
            f"Bring that one to its end first: bulk_run {others[0]} --again.",
        )
    shelf.tidy()


def _planned(context: ArchiveContext, database: Session) -> Plan:
    """What was planned for this run, or a plan made now and told."""
    if context.arguments.plan:
        return Plan.of(context.arguments.plan)
    made = planning.plan(database, context.parameters)
    context.tell.planned(made.told())
    return made


def _archive(context: ArchiveContext, database: Session, part: Part) -> Manifest:
    """Bring one part to its end, from wherever an earlier try left it."""
    shelf, arguments = context.shelf, context.arguments
    ended = shelf.ended(part.number)
    if ended is not None:
        shelf.forget(part.number)
        return ended
    context.tell.go_on()
    manifest = shelf.pending(part.number) or _sealed(context, database, part)
    shelf.place(manifest)
    manifest["kept"] = drop(context, database, manifest)
    with claimed(database, arguments):
        shelf.end(part.number, manifest)
    context.tell.say(
        f"{part.table}: {manifest['rows']:,} rows in {len(manifest['files']):,} files, "
        f"{manifest['kept']:,} stay here."
    )
    return manifest


def _sealed(context: ArchiveContext, database: Session, part: Part) -> Manifest:
    """Write the part's files; from here on they are never written again."""
    shelf, arguments = context.shelf, context.arguments
    with claimed(database, arguments):
        work = keeping.work_folder(shelf.folder, arguments.run)
    try:
        manifest = {**write(context, part, work), "work": work.name}
        with claimed(database, arguments):
            shelf.seal(part.number, manifest)
    except BaseException:
        # A lost answer of the database must not cost what the sealed manifest names.
        if shelf.pending(part.number) is None:
            keeping.remove(work)
        raise
    return manifest


def _report(arguments: Arguments, parameters: ArchiveParameters, ended: list[Manifest]) -> Report:
    rows, kept = (sum(one[name] for one in ended) for name in ("rows", "kept"))
    files = [file for one in ended for file in one["files"]]
    counts = {"read": rows, "sent": rows - kept, "rejected": 0, "skipped": kept}
    facts = {
        "folder": f"archive/{parameters.kind}",
        "files": len(files),
        "bytes": sum(file["bytes"] for file in files),
        "days": len({file["name"].partition("/")[0] for file in files}),
        "kept": kept,
    }
    return Report.done(arguments, counts, facts)
