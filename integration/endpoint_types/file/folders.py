"""Folders below the base folder: nothing that is asked for by name leads out of it.

Each step is opened from the one before and never through a symbolic link, so that a name cannot
be exchanged for another between the check and the use.
"""

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

MAX_NAME_BYTES: Final = 200
MAX_READ_BYTES: Final = 256 * 2**20
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
# With these a file system says that there is no such file now. All else leaves it open: a server
# may have done what it was asked, and its answer be lost.
_REFUSALS: Final = frozenset(
    {
        *(errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM),
        *(errno.EMLINK, errno.ENOENT, errno.EXDEV, errno.EOPNOTSUPP, errno.ENOSYS),
        *(errno.ENOTDIR, errno.ENAMETOOLONG, errno.EINVAL),
    }
)
# With these a file system says that it has no such call for folders: there is nothing to ask.
_CANNOT_BE_ASKED: Final = frozenset({errno.EINVAL, errno.ENOTSUP, errno.ENOSYS})
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class TakenError(Exception):
    """A file of this name is there already, with this content (None: it is no readable file)."""

    def __init__(self, content: bytes | None) -> None:
        super().__init__("A file of this name is there already.")
        self.content = content


def name_mistake(name: str) -> str:
    r"""Return why a file must not be called so, as the rest of a sentence; empty when it may.

    >>> name_mistake("../etc/passwd")
    'holds a / or \\, which would lead to another folder'
    """
    if "/" in name or "\\" in name:
        return "holds a / or \\, which would lead to another folder"
    if name.startswith(".") or not name.isprintable() or name != name.strip():
        return "begins with a dot, has outer blanks, or holds control characters"
    if len(name.encode("utf-8", "replace")) > MAX_NAME_BYTES:
        return f"is longer than {MAX_NAME_BYTES} bytes"
    return "" if name else "is empty"


class UnconfirmedError(Exception):
    """The file is in its place, or may be; the disk or the server did not confirm it."""


@contextmanager
def folder(root: Path, below: str) -> Iterator[int]:
    """An open folder, made where it is not there, as a descriptor. Raises OSError."""
    # The base folder is what the installation says, links included; below it none is followed.
    handle = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for step in filter(None, below.split("/")):
            if step in {".", ".."}:
                raise NotADirectoryError(step)
            with suppress(FileExistsError):
                os.mkdir(step, 0o750, dir_fd=handle)
                _sync(handle)
            deeper = os.open(step, _FOLDER, dir_fd=handle)
            os.close(handle)
            handle = deeper
        yield handle
    finally:
        os.close(handle)


def write_new(handle: int, name: str, content: bytes) -> None:
    """Write a file that appears whole or not at all, and never in the place of another.

    When it returns, file and name are on the disk. Raises TakenError, UnconfirmedError; OSError
    when there is no file of that name by it.
    """
    may_be_placed = False
    try:
        with _passing(handle, content) as passing:
            try:
                _place(handle, passing, name)
            except UnconfirmedError:
                may_be_placed = True
                raise
            may_be_placed = True
    except OSError as problem:
        # To take away the other name failed, maybe after the first one was left open.
        if may_be_placed:
            raise UnconfirmedError(problem.strerror or problem) from problem
        raise
    confirm(handle)


def _place(handle: int, passing: str, name: str) -> None:
    """Give the file a second name: unlike renaming it refuses to overwrite."""
    try:
        os.link(passing, name, src_dir_fd=handle, dst_dir_fd=handle, follow_symlinks=False)
    except FileExistsError:
        raise TakenError(_content(handle, name)) from None
    except OSError as problem:
        if problem.errno in _REFUSALS:
            raise
        raise UnconfirmedError(problem.strerror or problem) from problem


def confirm(handle: int) -> None:
    """Have the names of files found there on the disk, too. Raises UnconfirmedError.

    Whoever put them there may have died, or failed, before that.
    """
    try:
        _sync(handle)
    except OSError as problem:
        raise UnconfirmedError(problem.strerror or problem) from problem


def _sync(handle: int) -> None:
    """Have the names in a folder on the disk, if its file system can do that. Raises OSError."""
    try:
        os.fsync(handle)
    except OSError as problem:
        if problem.errno not in _CANNOT_BE_ASKED:
            raise


def probe(handle: int) -> None:
    """Prove that a file can be written here, its name too, and leave nothing behind.

    Raises OSError.
    """
    with _passing(handle, b"\n"):
        _sync(handle)


@contextmanager
def _passing(handle: int, content: bytes) -> Iterator[str]:
    """The name of a file that is on the disk, and is taken away again."""
    name = f".sluice-{secrets.token_hex(8)}.part"
    file = os.open(name, _NEW, 0o640, dir_fd=handle)
    try:
        try:
            left = memoryview(content)
            while left:
                left = left[os.write(file, left) :]
            os.fsync(file)
        finally:
            os.close(file)
        yield name
    finally:
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=handle)


def _content(handle: int, name: str) -> bytes | None:
    try:
        file = os.open(name, _READ, dir_fd=handle)
    except OSError:
        return None
    with os.fdopen(file, "rb") as opened:
        try:
            return opened.read(MAX_READ_BYTES)
        except OSError:
            return None
