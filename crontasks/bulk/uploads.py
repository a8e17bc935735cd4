"""Uploads of people: written below a name that no import reads, and renamed when they are whole.

Each person has a folder of their own, and each file a name of our own: what the person called it
is no part of a path.
"""

import os
import re
import secrets
from collections.abc import Iterator
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from pathlib import Path
from typing import BinaryIO, Final

from django.conf import settings
from django.utils.text import slugify

from crontasks.bulk.catalogue import CATALOGUE
from crontasks.bulk.errors import BulkError, unwritable
from crontasks.bulk.sharing import SENTINEL
from crontasks.bulk.storage import UPLOADS, inside, is_set
from integration.models import BulkRun
from integration.policy.states import BulkState
from spark_jobs.problems import JobError

PART: Final = ".part"
EXTENSION: Final = re.compile(r"\.[a-z0-9]{1,8}")
SHOWN_CHARACTERS: Final = 40
MEGABYTE: Final = 2**20
# What nobody has finished writing by then is of a web process that died.
PART_KEPT: Final = timedelta(days=1)
ENDED: Final = (BulkState.DONE, BulkState.FAILED, BulkState.CANCELLED)


def folder_of(person: int) -> str:
    """Where the uploads of a person lie, within the folder of bulk jobs."""
    return f"{UPLOADS}/{person}"


def most_bytes() -> int:
    """The largest upload that is taken."""
    return int(settings.SLUICE_BULK_UPLOAD_MB) * MEGABYTE


class Arriving:
    """One upload on its way to the disk. Either `keep` or `drop` ends it.

    Raises BulkError NO_BULK_ROOT, UPLOAD_FAILED.
    """

    def __init__(self, folder: str, called: str) -> None:
        token = secrets.token_hex(6)
        self.name = f"{folder}/{token}{_stem(called)}{_extension(called)}"
        self._place = inside(self.name)
        self._part = self._place.parent / f".{token}{PART}"
        self._size = 0
        try:
            self._place.parent.mkdir(parents=True, exist_ok=True)
            self._file: BinaryIO = self._part.open("xb")
        except OSError as e:
            raise unwritable(e) from e

    def write(self, chunk: bytes) -> None:
        """Raises BulkError UPLOAD_TOO_LARGE, UPLOAD_FAILED."""
        self._size += len(chunk)
        if self._size > most_bytes():
            raise too_large()
        try:
            self._file.write(chunk)
        except OSError as e:
            raise unwritable(e) from e

    def keep(self) -> str:
        """Make it durable under its name, which is returned. Raises BulkError UPLOAD_FAILED."""
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            self._part.rename(self._place)
            _synced(self._place.parent)
        except OSError as e:
            raise unwritable(e) from e
        return self.name

    def drop(self) -> None:
        """Leave nothing of it."""
        try:
            self._file.close()
        finally:
            self._part.unlink(missing_ok=True)


def too_large() -> BulkError:
    """An upload is larger than this installation takes."""
    return BulkError(
        JobError(
            "UPLOAD_TOO_LARGE",
            f"The file is larger than {settings.SLUICE_BULK_UPLOAD_MB:,} MB.",
            "Split it, or have it put into the folder of bulk jobs and name it there.",
        )
    )


def remove_old(days: int, at: datetime) -> int:
    """Remove uploads older than so many days that no run needs; returns how many.

    A run needs its files until it has ended for as many days: until then it can be run again.
    What is not whole and the sentinels of runs go as well, and are not counted.
    """
    if not is_set():
        return 0
    since = at - timedelta(days=days)
    needed = _needed(since)
    removed = 0
    for path in _every(inside(UPLOADS)):
        changed = path.stat().st_mtime
        if path.name.endswith(PART) and changed < (at - PART_KEPT).timestamp():
            _is_gone(path)
        elif path.name.startswith(SENTINEL) and changed < since.timestamp():
            _forget(path, since)
        elif path.name[0] != "." and changed < since.timestamp() and not _is_needed(path, needed):
            removed += _is_gone(path)
    return removed


def _every(folder: Path) -> Iterator[Path]:
    found = list(folder.rglob("*")) if folder.is_dir() else []
    return (path for path in found if path.is_file() and not path.is_symlink())


def _needed(since: datetime) -> list[str]:
    """The sources of all runs that are open, or ended not long ago: files, folders, patterns."""
    found = []
    runs = BulkRun.objects.exclude(ended_at__lt=since, state__in=ENDED)
    for run in runs.only("job", "job_request", "parameters").iterator():
        files = CATALOGUE[run.job].files if run.job in CATALOGUE else ()
        said = [told.get(name) for name in files for told in (run.job_request, run.parameters)]
        found += [str(one) for one in said if one]
    return found


def _is_needed(path: Path, needed: list[str]) -> bool:
    text = str(path)
    return any(text == one or path.is_relative_to(one) or fnmatchcase(text, one) for one in needed)


def _forget(path: Path, since: datetime) -> None:
    """A sentinel goes with its run, or when that has ended long ago."""
    kept = BulkRun.objects.filter(sentinel=str(path))
    if not kept.exclude(ended_at__lt=since, state__in=ENDED).exists():
        _is_gone(path)


def _is_gone(path: Path) -> bool:
    """Remove a file; one that cannot be removed stays, and keeps no other from going."""
    try:
        path.unlink(missing_ok=True)
    except OSError:
        return False
    return True


def _stem(called: str) -> str:
    """A little of what the person called it, so that they know it again in a list."""
    words = slugify(Path(called).stem)[:SHOWN_CHARACTERS].strip("-_")
    return f"-{words}" if words else ""


def _extension(called: str) -> str:
    found = Path(called).suffix.lower()
    return found if EXTENSION.fullmatch(found) else ""


def _synced(folder: Path) -> None:
    """The new name is on the disk as well."""
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
