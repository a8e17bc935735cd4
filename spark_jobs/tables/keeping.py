"""Files that last: written beside their place, forced to the disk, read back, moved in one step."""

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple
from uuid import uuid4

from spark_jobs.errors import JobError

_BLOCK_BYTES: Final = 2**20
# Words of systems about a disk, a quota or a limit that takes no more.
_FULL: Final = ("No space left on device", "Disk quota exceeded", "File too large")


class Sealed(NamedTuple):
    """A file that is on the disk, as it was read back from there."""

    name: str
    bytes: int
    sha256: str


def work_folder(parent: Path, owner: str) -> Path:
    """A new hidden folder for an owner's unfinished files; what earlier tries left is removed.

    Its name is of no other try: a task that outlived its driver writes into nothing that counts.
    """
    for left in parent.glob(f".{owner}-*"):
        remove(left)
    folder = parent / f".{owner}-{uuid4().hex[:8]}"
    folder.mkdir(parents=True)
    return folder


def remove(folder: Path) -> None:
    """Remove unfinished files, as far as that is possible: nobody reads them."""
    shutil.rmtree(folder, ignore_errors=True)


def sealed(path: Path, folder: Path) -> Sealed:
    """Force a file to the disk and read it back from there, past the system's memory of it."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        with suppress(OSError, AttributeError):
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        return Sealed(str(path.relative_to(folder)), *read_through(file))


def read_through(file: BinaryIO) -> tuple[int, str]:
    """The number of a file's bytes and their SHA-256, as they are read to its end."""
    digest, size = hashlib.sha256(), 0
    while block := file.read(_BLOCK_BYTES):
        digest.update(block)
        size += len(block)
    return size, digest.hexdigest()


def force(folder: Path) -> None:
    """Force the names within a folder to the disk."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a small file whole or not at all, and force it to the disk."""
    beside = path.with_name(f".{path.name}-{uuid4().hex[:8]}")
    try:
        with beside.open("w") as file:
            json.dump(content, file, ensure_ascii=False, indent=1)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
    force(path.parent)


def read_json(path: Path) -> dict[str, Any] | None:
    """The inverse of `write_json`; None where there is no such file."""
    try:
        return dict(json.loads(path.read_text()))
    except FileNotFoundError:
        return None


@contextmanager
def room(folder: Path) -> Iterator[None]:
    """Tell a full disk as what it is. Raises JobError DISK_FULL."""
    try:
        yield
    except JobError:
        raise
    except Exception as e:
        if any(sentence in str(e) for sentence in _FULL):
            raise JobError(
                "DISK_FULL",
                f"The disk of {folder} takes no more: nothing that is unfinished there counts, and "
                "nothing was removed here but what is kept there.",
                "Make room, or set SLUICE_BULK_ROOT to a larger disk, then let the run go on.",
            ) from e
        raise
