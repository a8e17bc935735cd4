"""The job itself: part by part, its files are written, verified and placed; then its rows go."""

import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from psycopg.errors import LockNotAvailable

from spark_jobs.archive import planning, unfinished
from spark_jobs.archive.disk_shelf import DiskShelf
from spark_jobs.archive.dropping import drop
from spark_jobs.archive.object_shelf import ObjectShelf
from spark_jobs.archive.parameters import ArchiveParameters
from spark_jobs.archive.planning import Part, Plan
from spark_jobs.archive.shelving import Manifest, Shelf
from spark_jobs.archive.writing import Archive, write
from spark_jobs.errors import JobError
from spark_jobs.fencing import Outcome, apply
from spark_jobs.storage import Storage, is_object
from spark_jobs.tables import keeping, parquet
from spark_jobs.work import Work

# A driver that died leaves the lock when the database has noticed.
_WAIT: Final = "SET LOCAL lock_timeout = '60s'"
_ALONE: Final = "SELECT pg_advisory_lock(hashtextextended('sluice archive ' || %s, 0))"


def run(work: Work) -> Outcome:
    """Archive what is old enough. Raises JobError, Stopped, and the database's errors."""
    parameters = ArchiveParameters.of(work.arguments.parameters)
    shelf, room = _shelf(work, parameters)
    archive = Archive(work, parameters, shelf, parquet.settled(work.session))
    with keeping.room(room):
        _be_alone(work, parameters, shelf)
        plan = work.planned(Plan, partial(planning.plan, work.database, parameters))
        ended = [_archive(archive, part) for part in plan.parts]
    outcome = _outcome(parameters, ended)
    with work.claimed():
        apply(work.database, work.owned, outcome)
    return outcome


def _shelf(work: Work, parameters: ArchiveParameters) -> tuple[Shelf, Path]:
    """The folder of the kind, and the one whose disk may be full."""
    if is_object(parameters.folder):
        folder = f"{parameters.folder}{parameters.kind}/"
        storage = Storage.of(work.arguments.storage)
        objects = ObjectShelf(storage, folder, work, parameters.installation)
        return objects, Path(tempfile.gettempdir())
    place = Path(parameters.folder) / parameters.kind
    return DiskShelf(place, work.owned.run, parameters.installation), place


def _be_alone(work: Work, parameters: ArchiveParameters, shelf: Shelf) -> None:
    """No other run archives this kind: what two of them read would be in the archive twice."""
    try:
        with work.database.transaction():
            work.database.execute(_WAIT)
            work.database.execute(_ALONE, [str(parameters.kind)])
    except LockNotAvailable:
        raise JobError(
            "ARCHIVE_BUSY",
            f"Another run archives {parameters.kind} at this moment.",
            "Let this one go on when that one has ended.",
        ) from None
    unfinished.refuse(
        work.database,
        parameters,
        lambda folder: _shelf(work, replace(parameters, folder=folder))[0],
    )
    # Not before: what it makes would hide that the disk of an earlier run is missing.
    shelf.make()
    shelf.tidy()


def _archive(archive: Archive, part: Part) -> Manifest:
    """Bring one part to its end, from wherever an earlier try left it."""
    work, shelf = archive.work, archive.shelf
    ended = shelf.ended(part.number)
    if ended is not None:
        shelf.forget(part.number)
        return ended
    work.tell.go_on()
    manifest = shelf.pending(part.number) or _sealed(archive, part)
    shelf.place(manifest)
    manifest["kept"] = drop(archive, manifest)
    with work.claimed():
        shelf.end(part.number, manifest)
    work.tell.say(
        f"{part.table}: {manifest['rows']:,} rows in {len(manifest['files']):,} files, "
        f"{manifest['kept']:,} stay here."
    )
    return manifest


def _sealed(archive: Archive, part: Part) -> Manifest:
    """Write the part's files; from here on they are never written again."""
    work, shelf = archive.work, archive.shelf
    with work.claimed():
        folder = shelf.work_folder()
    try:
        manifest = {**write(archive, part, folder), "work": folder}
        with work.claimed():
            shelf.seal(part.number, manifest)
    except BaseException:
        # A lost answer of the database must not cost what the sealed manifest names.
        if shelf.pending(part.number) is None:
            shelf.remove(folder)
        raise
    return manifest


def _outcome(parameters: ArchiveParameters, ended: list[Manifest]) -> Outcome:
    rows, kept = (sum(part[name] for part in ended) for name in ("rows", "kept"))
    files = [file for part in ended for file in part["files"]]
    counts = {"read": rows, "sent": rows - kept, "rejected": 0, "skipped": kept}
    facts: dict[str, Any] = {
        "folder": f"{parameters.folder}{parameters.kind}/"
        if is_object(parameters.folder)
        else f"archive/{parameters.kind}",
        "files": len(files),
        "bytes": sum(file["bytes"] for file in files),
        "days": len({file["name"].partition("/")[0] for file in files}),
        "kept": kept,
    }
    return counts, facts
