"""Counts fates and names offsets: the gravest few in memory, all of them in a file if asked.

A task keeps no more than NAMED names, whatever it reads, and so does whoever puts tasks together.
"""

import heapq
import json
import os
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TextIO

from spark_jobs.problems import JobError
from spark_jobs.reconcile.fates import GRAVITY, UNNAMED
from spark_jobs.reconcile.judging import Record, judged
from spark_jobs.reconcile.knowing import Known

NAMED: Final = 1_000
Name = tuple[int, int, int, str, str, str]
"""Gravity, partition, offset, fate, and of a failure its code and id: the order is the order."""


@dataclass(slots=True)
class Account:
    """What became of some records. `named` are at most NAMED of `names`."""

    fates: Counter[str] = field(default_factory=Counter)
    named: list[Name] = field(default_factory=list)
    names: int = 0

    def add(self, partition: int, records: Sequence[Record], known: Known) -> list[Name]:
        """Judge the records; returns those of them that are named."""
        found: list[Name] = []
        for (offset, _), fate in zip(records, judged(records, known), strict=True):
            self.fates[fate] += 1
            if fate not in UNNAMED:
                failed = known.failures.get(offset)
                told = ("", "") if failed is None else (failed.code, failed.id)
                found.append((GRAVITY[fate], partition, offset, str(fate), *told))
        self.names += len(found)
        self.named = heapq.nsmallest(NAMED, self.named + found)
        return found

    def told(self) -> dict[str, Any]:
        """As it travels from a task to the driver."""
        return {"fates": dict(self.fates), "named": self.named, "names": self.names}


def together(told: Iterable[Mapping[str, Any]]) -> Account:
    """The accounts of all tasks as one."""
    whole = Account()
    for one in told:
        whole.fates.update(one["fates"])
        whole.named = heapq.nsmallest(NAMED, whole.named + [_name(name) for name in one["named"]])
        whole.names += one["names"]
    return whole


def _name(told: Sequence[Any]) -> Name:
    gravity, partition, offset, fate, code, failure = told
    return gravity, partition, offset, fate, code, failure


def shown(name: Name) -> dict[str, object]:
    """A named offset as people and programs read it."""
    _, partition, offset, fate, code, failure = name
    told: dict[str, object] = {"partition": partition, "offset": offset, "is": fate}
    return {**told, "code": code, "failure": failure} if failure else told


class Names:
    """One task's share of the file: it appears whole or not at all, also when it is tried again."""

    def __init__(self, file: str, number: int) -> None:
        self._path = parts(file) / f"{number:06}.jsonl" if file else None
        self._writing: TextIO | None = None

    def __enter__(self) -> Self:
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._writing = self._begun.open("w", encoding="utf-8")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        _failure: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        if self._writing is not None and self._path is not None:
            self._writing.close()
            if kind is None:
                self._begun.replace(self._path)

    @property
    def _begun(self) -> Path:
        assert self._path is not None  # noqa: S101 - asked only where there is a file
        # Two tries of one task may be at work when a worker was thought dead.
        return self._path.with_suffix(f".{os.getpid()}")

    def write(self, names: Iterable[Name]) -> None:
        if self._writing is not None:
            self._writing.writelines(f"{json.dumps(shown(name))}\n" for name in names)


def parts(file: str) -> Path:
    """The folder of the tasks' shares."""
    return Path(f"{file}.parts")


def joined(file: str) -> int:
    """Make the file of its parts, in their order; returns its size in bytes.

    Raises JobError FILE_NOT_WRITTEN.
    """
    path, begun = Path(file), Path(f"{file}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with begun.open("wb") as whole:
            for part in _shares(file):
                with part.open("rb") as one:
                    shutil.copyfileobj(one, whole)
            whole.flush()
            os.fsync(whole.fileno())
        begun.replace(path)
        size = path.stat().st_size
    except OSError as e:
        raise unwritten(file, e) from e
    drop(file)
    return size


def drop(file: str) -> None:
    """Take the parts away."""
    if file:
        shutil.rmtree(parts(file), ignore_errors=True)


def unwritten(file: str, failure: OSError) -> JobError:
    return JobError(
        "FILE_NOT_WRITTEN",
        f"{file} cannot be written: {failure.strerror or failure}.",
        "Look for room and rights in the shared folder; then drive the run again.",
    )


def _shares(file: str) -> Iterator[Path]:
    yield from sorted(parts(file).glob("*.jsonl"))
