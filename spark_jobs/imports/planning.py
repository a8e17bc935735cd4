"""Cuts files into ranges of whole rows, before anything is read: a rerun reads the same ones."""

from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Final

from spark_jobs.contract import Heed, Progress, unheeded
from spark_jobs.errors import JobError
from spark_jobs.errors import changed as file_changed
from spark_jobs.imports import sources
from spark_jobs.imports.parameters import ImportParameters
from spark_jobs.imports.rows import Range
from spark_jobs.parameters import RunPlan
from spark_jobs.storage import DISK, Storage

RANGE_BYTES: Final = 8 * 2**20
# Somebody waits for a preview: of a storage it looks at so many files and folders.
MOST_PREVIEWED: Final = 10_000
Facts = tuple[int, int]
"""By which a file is known: its size in bytes, the time of its last change in nanoseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(RunPlan):
    """The files of a run, each as it was (size, time of its last change), and the ranges."""

    files: tuple[tuple[str, int, int], ...]
    ranges: tuple[Range, ...]

    @property
    def bytes(self) -> int:
        return sum(size for _, size, _ in self.files)

    @property
    def facts(self) -> dict[str, Facts]:
        """Each file's size in bytes, and the time of its last change in nanoseconds."""
        return {name: (size, changed) for name, size, changed in self.files}

    def without(self, staged: Container[int]) -> "Plan":
        """Return what is to be read yet: without the ranges staged, and files that are through."""
        ranges = tuple(part for part in self.ranges if part.number not in staged)
        through = {part.file for part in self.ranges} - {part.file for part in ranges}
        files = tuple(file for file in self.files if ranges and file[0] not in through)
        return Plan(files=files, ranges=ranges)

    def check(self, storage: Storage = DISK, heed: Heed = unheeded) -> None:
        """Raise JobError SOURCE_CHANGED unless every file is what it was; STORAGE_FAILED."""
        for name, facts in self.facts.items():
            heed(None)
            same_file(name, facts, storage)


def same_file(name: str, facts: Facts, storage: Storage = DISK) -> None:
    """Raise JobError SOURCE_CHANGED unless a file is what it was; STORAGE_FAILED."""
    if storage.facts(name) != facts:
        raise file_changed(name)


def plan(
    parameters: ImportParameters,
    range_bytes: int = RANGE_BYTES,
    storage: Storage = DISK,
    heed: Heed = unheeded,
) -> Plan:
    """Look at every file of the source. Raises JobError: NO_SOURCE, UNREADABLE_FILE, STORAGE_…."""
    files: list[tuple[str, int, int]] = []
    ranges: list[Range] = []
    found = files_of(parameters, storage)
    way = _Way(heed, [size for _, size in found], range_bytes, sources.PASSES[parameters.format])
    for name, _ in found:
        way.next_file()
        # Not the listing's: its times may be finer than those that a file is compared by later.
        size, changed = storage.facts(name) or (0, 0)
        files.append((name, size, changed))
        for cut in sources.cuts_of((name, size), parameters, range_bytes, storage, way.passed):
            ranges.append(Range(number=len(ranges), file=name, **cut._asdict()))
    return Plan(files=tuple(files), ranges=tuple(ranges))


class _Way:
    """Tells how far planning is, in parts that are about the ranges that it makes."""

    def __init__(self, heed: Heed, sizes: Sequence[int], range_bytes: int, passes: int) -> None:
        self._heed = heed
        # Of so many bytes read a part is through.
        self._part_bytes = range_bytes * passes
        self._parts = [max(1, -(-size // range_bytes)) for size in sizes]
        self._total = sum(self._parts)
        self._file, self._before, self._read = -1, 0, 0

    def next_file(self) -> None:
        """What came before is through."""
        self._before += self._parts[self._file] if self._file >= 0 else 0
        self._file, self._read = self._file + 1, 0
        self._tell()

    def passed(self, size: int) -> None:
        """So many bytes more of the file are read."""
        self._read += size
        self._tell()

    def _tell(self) -> None:
        of_file = min(self._read // self._part_bytes, self._parts[self._file])
        self._heed(Progress(stage="plan", done=self._before + of_file, total=self._total))


def files_of(
    parameters: ImportParameters, storage: Storage = DISK, *, most: int | None = None
) -> list[tuple[str, int]]:
    """The files of the source by name, each with its size in bytes.

    Raises JobError NO_SOURCE, STORAGE_FAILED, TOO_MANY_FILES with more than `most` objects.
    """
    files = storage.find(parameters.source, most)
    if not files:
        raise JobError(
            "NO_SOURCE",
            f"There is no file to read at {parameters.source}.",
            "Name a file, a folder with files, or a pattern such as /data/assets-*.csv.",
        )
    return files
