"""Cuts files into ranges of whole rows, before anything is read: a rerun reads the same ones."""

import glob
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from spark_jobs.errors import JobError
from spark_jobs.errors import changed as file_changed
from spark_jobs.imports import sources
from spark_jobs.imports.parameters import ImportParameters
from spark_jobs.imports.rows import Range
from spark_jobs.parameters import RunPlan

RANGE_BYTES: Final = 8 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(RunPlan):
    """The files of a run, each as it was (size, time of its last change), and the ranges."""

    files: tuple[tuple[str, int, int], ...]
    ranges: tuple[Range, ...]

    @property
    def bytes(self) -> int:
        return sum(size for _, size, _ in self.files)

    def check(self) -> None:
        """Raise JobError SOURCE_CHANGED unless every file is what it was."""
        for name, size, changed in self.files:
            if _facts(Path(name)) != (size, changed):
                raise file_changed(name)


def plan(parameters: ImportParameters, range_bytes: int = RANGE_BYTES) -> Plan:
    """Look at every file of the source. Raises JobError NO_SOURCE, UNREADABLE_FILE."""
    files: list[tuple[str, int, int]] = []
    ranges: list[Range] = []
    for path, _ in files_of(parameters):
        size, changed = _facts(path) or (0, 0)
        files.append((str(path), size, changed))
        for cut in sources.cuts_of(path, size, parameters, range_bytes):
            ranges.append(Range(number=len(ranges), file=str(path), **cut._asdict()))
    return Plan(files=tuple(files), ranges=tuple(ranges))


def files_of(parameters: ImportParameters) -> list[tuple[Path, int]]:
    """The files of the source by name, each with its size in bytes. Raises JobError NO_SOURCE."""
    files = sorted(_files(parameters.source))
    if not files:
        raise JobError(
            "NO_SOURCE",
            f"There is no file to read at {parameters.source}.",
            "Name a file, a folder with files, or a pattern such as /data/assets-*.csv.",
        )
    return [(path, (_facts(path) or (0, 0))[0]) for path in files]


def _files(source: str) -> Iterator[Path]:
    """Hidden files and those of a writer at work ("_SUCCESS", "_temporary/…") are none."""
    path = Path(source)
    paths: Iterator[Path]
    if path.is_dir():
        paths = path.rglob("*")
    elif path.is_file():
        paths = iter([path])
    else:
        paths = map(Path, glob.iglob(source, recursive=True))  # noqa: PTH207 - an absolute pattern
    for file in paths:
        inside = file.relative_to(path).parts if path.is_dir() else file.parts[-1:]
        if file.is_file() and (file == path or not any(part[0] in "._" for part in inside)):
            yield file


def _facts(path: Path) -> tuple[int, int] | None:
    try:
        facts = path.stat()
    except OSError:
        return None
    return facts.st_size, facts.st_mtime_ns
