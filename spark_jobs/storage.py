"""Where a job's files lie: on a disk, or as objects in a storage that speaks S3.

Objects are read by Arrow, whose wheel brings all that it takes: rows are read by tasks in Python,
and none of them goes through Hadoop's file systems. Arrow is imported where an object is named: it
starts threads, which no process may have that workers are forked from.
"""

import glob
import io
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO, Final

from spark_jobs.errors import JobError

# As people write them; Hadoop's own word for it means the same here.
SCHEMES: Final = ("s3://", "s3a://")
# So much is asked for at a time: each request costs what reading some hundred kilobytes does.
READ_AHEAD_BYTES: Final = 4 * 2**20
CONNECT_SECONDS: Final = 5.0
ANSWER_SECONDS: Final = 30.0
_PATTERN: Final = re.compile(r"[*?\[]")
_SEVERAL: Final = re.compile(r"(?<![^/])\*\*(?:/+\*\*)+(?![^/])")


def is_object(name: str) -> bool:
    """Return whether a name leads into an object storage."""
    return name.startswith(SCHEMES)


def object_name(name: str) -> str:
    """The one way to write it: `s3://bucket/key`. Raises JobError BAD_STORAGE_NAME."""
    scheme = next(one for one in SCHEMES if name.startswith(one))
    bucket, _, key = name.removeprefix(scheme).partition("/")
    if not bucket or "@" in bucket or _PATTERN.search(bucket) or "\0" in name:
        raise JobError(
            "BAD_STORAGE_NAME",
            f"{name[:200]!r} names no bucket.",
            "Write s3://bucket/folder/file.csv, without credentials; patterns may follow the "
            "bucket.",
        )
    if any(part in {".", ".."} for part in key.split("/")):
        raise JobError(
            "BAD_STORAGE_NAME", f"{name[:200]!r} has dots for a folder.", "Write the whole name."
        )
    return f"{SCHEMES[0]}{bucket}/{key}"


class _Object(io.RawIOBase):
    """An object of Arrow's as Python's own files are; each read is a request."""

    def __init__(self, opened: Any, name: str) -> None:
        super().__init__()
        self._opened, self._name = opened, name

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return int(self._opened.seek(offset, whence))

    def tell(self) -> int:
        return int(self._opened.tell())

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override] # always one
        with _told(self._name):
            data = self._opened.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._opened.close()
        super().close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """How objects are reached; what lies on a disk needs none of it. Tasks are given a copy.

    Without an endpoint it is Amazon's. Without keys each machine has its own way to get some, as
    the AWS SDK does: variables, a file, the role of the machine.
    """

    endpoint: str = ""
    region: str = ""
    access_key: str = ""
    secret_key: str = ""

    def __repr__(self) -> str:
        # Whatever prints it: the secret is no part of that.
        return f"Storage(endpoint={self.endpoint!r})"

    @staticmethod
    def of(facts: Mapping[str, str]) -> "Storage":
        return Storage(**facts)

    def open(self, name: str) -> BinaryIO:
        """A file to be read. Raises OSError on a disk; JobError STORAGE_FAILED, OBJECT_GONE."""
        if not is_object(name):
            return Path(name).open("rb", buffering=0)
        return io.BufferedReader(_Object(self.arrow(name), name), READ_AHEAD_BYTES)

    def arrow(self, name: str) -> Any:
        """The file as Arrow reads it: a path, or an object. Raises as `open` does for an object."""
        if not is_object(name):
            return Path(name)
        with _told(name):
            return self._system().open_input_file(_key(name))

    def facts(self, name: str) -> tuple[int, int] | None:
        """Size in bytes and time of the last change in nanoseconds; None where there is no file.

        Raises JobError STORAGE_FAILED.
        """
        if is_object(name):
            with _told(name):
                found = self._system().get_file_info(_key(name))
            return (int(found.size), int(found.mtime_ns)) if found.is_file else None
        try:
            facts = Path(name).stat()
        except OSError:
            return None
        return facts.st_size, facts.st_mtime_ns

    def find(self, source: str, most: int | None = None) -> list[tuple[str, int]]:
        """The files of a source by name, each with its size: a file, a folder or a pattern.

        Hidden ones and those of a writer at work ("_SUCCESS", "_temporary/…") are none. Raises as
        `facts` does, and JobError TOO_MANY_FILES where more than `most` objects are to be listed.
        """
        if is_object(source):
            found = self._objects(source, most)
        else:
            names = map(str, _files(source))
            found = ((name, (self.facts(name) or (0, 0))[0]) for name in names)
        return sorted(found, key=lambda file: file[0].split("/"))

    def write(self, name: str, content: bytes) -> None:
        """Write a small object. Raises JobError STORAGE_FAILED."""
        with self.created(name) as stream:
            stream.write(content)

    def read(self, name: str) -> bytes | None:
        """The content of a small object; None where there is none. Raises as `facts` does."""
        if self.facts(name) is None:
            return None
        with self.open(name) as file:
            return file.read()

    def hand_over(self, path: Path, name: str) -> None:
        """Copy a file into the storage, under this name. Raises JobError STORAGE_FAILED."""
        with path.open("rb") as file, self.created(name) as stream:
            shutil.copyfileobj(file, stream, READ_AHEAD_BYTES)
        facts, size = self.facts(name), path.stat().st_size
        if facts is None or facts[0] != size:
            with _told(name):
                raise OSError(f"it has {facts and facts[0]} bytes of {size}")

    @contextmanager
    def created(self, name: str) -> Iterator[Any]:
        """A stream into a new object; where the block fails, there is none afterwards.

        Raises JobError STORAGE_FAILED.
        """
        with _told(name):
            stream = self._system().open_output_stream(_key(name))
            try:
                yield stream
                stream.close()
            except BaseException:
                # Arrow offers no way to abort: whatever closes a stream completes its object.
                with suppress(OSError):
                    stream.close()
                with suppress(OSError):
                    self._system().delete_file(_key(name))
                raise

    def copy(self, name: str, to: str) -> None:
        """Copy an object within the storage. Raises JobError OBJECT_GONE, STORAGE_FAILED."""
        with _told(name):
            self._system().copy_file(_key(name), _key(to))

    def remove(self, name: str) -> None:
        """Remove an object, if it is there. Raises JobError STORAGE_FAILED."""
        if self.facts(name) is not None:
            with _told(name):
                self._system().delete_file(_key(name))

    def inside(self, folder: str) -> list[str]:
        """The names of what lies right inside a folder. Raises JobError STORAGE_FAILED."""
        from pyarrow.fs import FileSelector  # noqa: PLC0415 - see above

        with _told(folder):
            selector = FileSelector(_key(folder).rstrip("/"), allow_not_found=True)
            return [str(entry.base_name) for entry in self._system().get_file_info(selector)]

    def has_bucket(self, name: str) -> bool:
        """Return whether the bucket of a name is there. Raises JobError STORAGE_FAILED."""
        from pyarrow.fs import FileType  # noqa: PLC0415 - see above

        with _told(name):
            found = self._system().get_file_info(_key(name).partition("/")[0])
        return found.type is not FileType.NotFound

    def remove_folders(self, beginning: str, *, is_needed: bool = True) -> None:
        """Remove each folder whose name begins so. Raises JobError STORAGE_FAILED if needed."""
        from pyarrow.fs import FileSelector  # noqa: PLC0415 - see above

        key = _key(beginning)
        selector = FileSelector(key.rpartition("/")[0], allow_not_found=True)
        with suppress(*([] if is_needed else [JobError])), _told(beginning):
            for entry in self._system().get_file_info(selector):
                if entry.path.startswith(key):
                    self._system().delete_dir(entry.path)

    def _system(self) -> Any:
        return _connected(self.endpoint, self.region, self.access_key, self.secret_key)

    def _objects(self, source: str, most: int | None) -> Iterator[tuple[str, int]]:
        key = _key(source)
        is_name = not (key.endswith("/") or _PATTERN.search(key))
        facts = self.facts(source) if is_name else None
        if facts is not None:
            yield object_name(source), facts[0]
            return
        folder, pattern = _split(key)
        for entry in self._entries(source, folder, most):
            inside = entry.path.removeprefix(f"{folder}/").split("/")
            hidden = inside[-1:] if pattern else inside
            is_meant = not pattern or fits(inside, pattern)
            if entry.is_file and is_meant and not any(part[:1] in {".", "_"} for part in hidden):
                yield f"{SCHEMES[0]}{entry.path}", int(entry.size)

    def _entries(self, source: str, folder: str, most: int | None) -> Iterator[Any]:
        """All below a folder: by one listing, or, with a limit, folder by folder up to it."""
        from pyarrow.fs import FileSelector  # noqa: PLC0415 - see above

        # Arrow gives a listing when it is whole: only between two of them is there a way to stop.
        folders, seen = [folder], 0
        while folders:
            selector = FileSelector(folders.pop(), allow_not_found=True, recursive=most is None)
            with _told(source):
                entries = self._system().get_file_info(selector)
            seen += len(entries)
            if most is not None and seen > most:
                raise _too_many(source, most)
            if most is not None:
                folders += [entry.path for entry in entries if not entry.is_file]
            yield from entries


DISK: Final = Storage()


def _key(name: str) -> str:
    """The name as Arrow has it: bucket/key."""
    return object_name(name).removeprefix(SCHEMES[0])


def _too_many(source: str, most: int) -> JobError:
    return JobError(
        "TOO_MANY_FILES",
        f"For {source[:200]!r} more than {most:,} files and folders would be looked at.",
        "Name a folder that holds fewer, or ask for the run with manage.py.",
    )


def _split(key: str) -> tuple[str, Sequence[str]]:
    """The folder that has no pattern in it, and the parts of the pattern behind it."""
    match = _PATTERN.search(key)
    if match is None:
        return key.rstrip("/"), ()
    folder = key[: match.start()].rpartition("/")[0]
    return folder, key[len(folder) + 1 :].split("/")


def fits(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    """Return whether a name fits, as `glob` says: `**` stands for any folders, also for none.

    >>> fits(["a", "b", "c"], ["**", "b", "**"]), fits(["a", "b", "c"], ["**", "b"])
    (True, False)
    """
    at = step = begun = 0
    last: int | None = None
    while at < len(parts):
        wanted = pattern[step] if step < len(pattern) else None
        if wanted == "**":
            last, begun, step = step, at, step + 1
        elif wanted is not None and fnmatchcase(parts[at], wanted):
            at, step = at + 1, step + 1
        elif last is None:
            return False
        else:
            # The last `**` takes one part more; what those before it took may stay as it is.
            begun += 1
            at, step = begun, last + 1
    return all(part == "**" for part in pattern[step:])


def _files(source: str) -> Iterator[Path]:
    path = Path(source)
    paths: Iterator[Path]
    if path.is_dir():
        paths = path.rglob("*")
    elif path.is_file():
        paths = iter([path])
    else:
        # By each of several `**` in a row, or apart, the same file would be found once more.
        pattern = _SEVERAL.sub("**", source)
        found = glob.iglob(pattern, recursive=True)  # noqa: PTH207 - an absolute pattern
        paths = map(Path, dict.fromkeys(found))
    for file in paths:
        inside = file.relative_to(path).parts if path.is_dir() else file.parts[-1:]
        if file.is_file() and (file == path or not any(part[0] in "._" for part in inside)):
            yield file


@lru_cache(maxsize=4)
def _connected(endpoint: str, region: str, access_key: str, secret_key: str) -> Any:
    """Arrow's file system; it keeps connections of its own, so each process has one."""
    from pyarrow.fs import S3FileSystem  # noqa: PLC0415 - see above

    scheme, _, address = endpoint.rpartition("://")
    return S3FileSystem(
        access_key=access_key or None,
        secret_key=secret_key or None,
        region=region or None,
        scheme=scheme or "https",
        endpoint_override=address or None,
        connect_timeout=CONNECT_SECONDS,
        request_timeout=ANSWER_SECONDS,
        # What fits into one request is sent by one.
        allow_delayed_open=True,
    )


@contextmanager
def _told(name: str) -> Iterator[None]:
    """What the storage refuses, as people can use it. Arrow's sentences name no credential."""
    try:
        yield
    except FileNotFoundError as e:
        raise JobError(
            "OBJECT_GONE",
            f"There is no {name} any more.",
            "Put it there again, or start a new run.",
        ) from e
    except OSError as e:
        raise JobError(
            "STORAGE_FAILED",
            f"The object storage did not give {name}: {str(e)[:300]}.",
            "Look whether SLUICE_S3_ENDPOINT leads there from this machine, whether the bucket is "
            "there and whether the keys may list and read it; then let the run go on.",
        ) from e
