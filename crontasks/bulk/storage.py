"""The folder that the web and the Spark driver share: uploads, exports, the archive.

An upload is of no use where the driver looks at another disk under the same name. So the web
leaves a sentinel with each run that reads from the folder, and the driver begins by reading it.
"""

import glob
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final
from uuid import UUID

from django.conf import settings

from crontasks.bulk.errors import BulkError
from integration.models import BulkRun
from spark_jobs.errors import JobError
from spark_jobs.storage import Storage, is_object, object_name

UPLOADS: Final = "uploads"
EXPORTS: Final = "exports"
ARCHIVE: Final = "archive"
SENTINEL: Final = ".sentinel-"
# Ends the name of an upload that is not whole.
PART: Final = ".part"
# Lists that jobs write where a person names the file.
REPORTS: Final = "reports"
# Of a folder or pattern so many files are looked at, and of an export so many are listed.
MOST_FILES: Final = 10_000
LISTED_FILES: Final = 200
# Of one part of a path, in bytes: what file systems take.
LONGEST_NAME: Final = 255


@dataclass(frozen=True, slots=True)
class Stored:
    """A file within the folder. `name` is its place in what was listed."""

    name: str
    size: int
    changed_at: datetime


def root() -> Path:
    """Raises BulkError NO_BULK_ROOT where no folder is set."""
    folder: Path | None = settings.SLUICE_BULK_ROOT
    if folder is None:
        raise BulkError(
            "NO_BULK_ROOT",
            "No folder is set for the files of bulk jobs.",
            "Set SLUICE_BULK_ROOT to a folder that the web and the Spark driver share.",
        )
    return folder.absolute()


def is_set() -> bool:
    """Return whether there is such a folder at all."""
    return settings.SLUICE_BULK_ROOT is not None


def inside(name: str, within: str = "") -> Path:
    """The path of a name within the folder, or a part of it, whatever links and dots it has.

    Raises BulkError OUTSIDE_FOLDER for one that leads out of it, NO_BULK_ROOT.
    """
    folder = root().resolve() / within
    if not _is_name(name):
        raise _outside(name)
    path = (folder / name).resolve()
    if not path.is_relative_to(folder):
        raise _outside(name)
    return path


def object_storage() -> Storage:
    """The object storage of this installation."""
    return Storage.of(settings.SLUICE_S3)


def source_inside(name: str, within: str = "") -> str:
    """The whole name of a file, a folder or a pattern, each file of which lies inside.

    `within` names the part of the folder that it may lie in; objects lie in no such part. Raises
    BulkError OUTSIDE_FOLDER, OUTSIDE_PLACES, TOO_MANY_FILES, NO_BULK_ROOT, BAD_STORAGE_NAME.
    """
    if is_object(name):
        return _object_inside(name, within)
    path = inside(name)
    allowed = inside(within) if within else root().resolve()
    if ".." in Path(name).parts or not path.is_relative_to(allowed):
        raise _outside(name)
    # A link may lead anywhere, and a pattern goes through it.
    for number, file in enumerate(files(path)):
        if number == MOST_FILES:
            raise BulkError(
                "TOO_MANY_FILES",
                f"{name[:200]!r} finds more than {MOST_FILES:,} files.",
                "Name a part of them, or ask for the run with manage.py.",
            )
        if not file.resolve().is_relative_to(allowed):
            raise _outside(name)
    return str(path)


def object_folder(name: str) -> str:
    """A folder of the object storage, with its slash. Raises BulkError BAD_STORAGE_NAME."""
    if not is_object(name):
        raise BulkError(
            "BAD_STORAGE_NAME", f"{name[:200]!r} names no bucket.", "Write s3://bucket/folder/."
        )
    try:
        return f"{object_name(name).rstrip('/')}/"
    except JobError as e:
        raise BulkError.of(e) from e


def target_inside(name: str) -> str:
    """The same of one that lies where objects may lie. Raises BulkError OUTSIDE_PLACES, too."""
    return _object_inside(object_folder(name), "")


def _object_inside(name: str, within: str) -> str:
    try:
        whole = object_name(name)
    except JobError as e:
        raise BulkError.of(e) from e
    places = [] if within else [object_name(place) for place in settings.SLUICE_S3_PLACES]
    if not any(whole.startswith(place) for place in places):
        raise BulkError(
            "OUTSIDE_PLACES",
            f"{name[:200]!r} does not lie where files of bulk jobs may lie in the object storage.",
            "Name one within SLUICE_S3_PLACES; people who are limited to some external systems "
            "may read their uploads alone.",
        )
    return whole


def uploads_of(person: int) -> str:
    """The place of a person's uploads, within the folder."""
    return f"{UPLOADS}/{person}"


def shown(path: str) -> str:
    """The name of a path within the folder; one that lies elsewhere as it is."""
    if not is_set():
        return path
    for folder in (root(), root().resolve()):
        if Path(path).is_relative_to(folder):
            return str(Path(path).relative_to(folder))
    return path


def with_short_names(text: str) -> str:
    """A sentence of a job with the names of files as people know them: within the folder."""
    if not is_set():
        return text
    for folder in {root(), root().resolve()}:
        text = text.replace(f"{folder}/", "")
    return text


def exported(run: UUID) -> list[Stored]:
    """The files that a run wrote for people to fetch, at most LISTED_FILES, by name."""
    if not is_set():
        return []
    folder = inside(f"{EXPORTS}/{run}")
    files = sorted(path for path in folder.rglob("*") if _is_for_people(path, folder))
    return [_stored(path, folder) for path in files[:LISTED_FILES]]


def exported_file(run: UUID, name: str) -> Path:
    """One of these files. Raises BulkError OUTSIDE_FOLDER, also when there is none of that name."""
    folder = inside(f"{EXPORTS}/{run}")
    path = inside(f"{EXPORTS}/{run}/{name}")
    if not _is_for_people(path, folder):
        raise _outside(name)
    return path


def listed(folder: str) -> list[Stored]:
    """The files of a folder within the folder, the newest first; none where there is none."""
    place = inside(folder)
    if not place.is_dir():
        return []
    files = [_stored(path, place) for path in place.iterdir() if _is_for_people(path, place)]
    return sorted(files, key=lambda one: one.changed_at, reverse=True)


def _outside(name: str) -> BulkError:
    """A name leads out of the folder, or out of the part of it that is one's own."""
    return BulkError(
        "OUTSIDE_FOLDER",
        f"{name[:200]!r} does not lie within the folder of bulk jobs, or not within the part "
        "of it that you may use.",
        "Name a file within it, without a leading slash.",
    )


def _is_name(name: str) -> bool:
    """Return whether the operating system can be asked for it at all."""
    parts = Path(name).parts
    is_short = all(len(part.encode("utf-8", "replace")) <= LONGEST_NAME for part in parts)
    return bool(name) and "\0" not in name and is_short and len(name) < 4_000


def files(path: Path) -> Iterator[Path]:
    """Every file of a folder, or that a pattern finds; a file's own."""
    if path.is_dir():
        return path.rglob("*")
    return map(Path, glob.iglob(str(path), recursive=True))  # noqa: PTH207 - an absolute pattern


def _is_for_people(path: Path, folder: Path) -> bool:
    """Neither hidden, nor of a writer at work, nor a link to elsewhere."""
    if not path.is_relative_to(folder) or path.is_symlink() or not path.is_file():
        return False
    return not any(part[0] in "._" for part in path.relative_to(folder).parts)


def _stored(path: Path, folder: Path) -> Stored:
    facts = path.stat()
    changed_at = datetime.fromtimestamp(facts.st_mtime, UTC)
    return Stored(str(path.relative_to(folder)), facts.st_size, changed_at)


def leave_sentinel(run: BulkRun) -> None:
    """Write the run's sentinel and note where it lies. Raises BulkError UPLOAD_FAILED."""
    place = inside(f"{UPLOADS}/{SENTINEL}{run.pk}")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with place.open("w") as file:
            file.write(str(run.pk))
            file.flush()
            os.fsync(file.fileno())
    except OSError as e:
        raise unwritable(e) from e
    run.sentinel = str(place)


def prove_sentinel(run: BulkRun) -> None:
    """Read the sentinel that the web left, if it left one. Raises JobError UPLOAD_NOT_SHARED."""
    if not run.sentinel:
        return
    why = f"{run.sentinel} is not the one that the web wrote"
    try:
        if Path(run.sentinel).read_text() == str(run.pk):
            return
    except OSError as e:
        why = f"{run.sentinel} cannot be read here: {e.strerror}"
    raise JobError(
        "UPLOAD_NOT_SHARED",
        f"The driver does not see the folder that the web writes uploads to: {why}.",
        "Let SLUICE_BULK_ROOT lead to the same folder under the same name for both, then run it "
        "again.",
    )


def unwritable(problem: OSError) -> BulkError:
    """The folder takes nothing from the web."""
    return BulkError(
        "UPLOAD_FAILED",
        f"The file could not be written: {problem.strerror or type(problem).__name__}.",
        "Look whether the folder of bulk jobs has room and may be written by the web.",
    )
