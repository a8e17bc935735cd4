"""Counts fates and names offsets: the gravest few in memory, all of them in a file if asked.

A task keeps no more than NAMED names, whatever it reads, and so does whoever puts tasks together.
"""

import heapq
import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from spark_jobs.errors import JobError
from spark_jobs.reconcile.fates import UNNAMED
from spark_jobs.reconcile.judging import Record, judged
from spark_jobs.reconcile.knowing import Known

NAMED: Final = 1_000
Name = tuple[int, int, int, str, str, str]
"""Gravity, partition, offset, fate, and of a failure its code and id: the order is the order."""
Write = Callable[[Iterable[Name]], None]
PLACED: Final = "placed"
"""The fact by which a run knows its own report: the identity of the file that it put there."""


@dataclass(slots=True)
class Account:
    """The fates of some records. `named` are at most NAMED of `names`."""

    fates: Counter[str] = field(default_factory=Counter)
    named: list[Name] = field(default_factory=list)
    names: int = 0

    def add(self, partition: int, records: Sequence[Record], known: Known) -> list[Name]:
        """Judge the records; returns those of them that are named."""
        names: list[Name] = []
        for (offset, _), fate in zip(records, judged(records, known), strict=True):
            self.fates[fate] += 1
            if fate not in UNNAMED:
                failed = known.failures.get(offset)
                failure = ("", "") if failed is None else (failed.code, failed.id)
                names.append((fate.gravity, partition, offset, str(fate), *failure))
        self.names += len(names)
        self.named = heapq.nsmallest(NAMED, self.named + names)
        return names


def together(accounts: Iterable[Account]) -> Account:
    """The accounts of all tasks as one."""
    whole = Account()
    for account in accounts:
        whole.fates.update(account.fates)
        whole.named = heapq.nsmallest(NAMED, whole.named + account.named)
        whole.names += account.names
    return whole


def shown(name: Name) -> dict[str, object]:
    """A named offset as people and programs read it."""
    _, partition, offset, fate, code, failure = name
    place: dict[str, object] = {"partition": partition, "offset": offset, "is": fate}
    return {**place, "code": code, "failure": failure} if failure else place


def identity(path: Path) -> list[int]:
    """By which a file is known that gets another name: its inode, its last change in ns, its size.

    Raises OSError.
    """
    facts = path.stat()
    return [facts.st_ino, facts.st_mtime_ns, facts.st_size]


@dataclass(frozen=True, slots=True)
class Report:
    """The file that names every offset, made of the shares of one driver's tasks.

    A driver that lost the run has tasks at work yet: each epoch has a folder of its own. Where no
    `file` is asked for nothing is written. `placed` is the identity of the file that an earlier
    driver of the run put there, if one did.
    """

    file: str
    run: str
    epoch: int
    placed: Sequence[int] = ()

    @contextmanager
    def share(self, number: int) -> Iterator[Write]:
        """Yield what writes one task's share, which appears whole or not at all.

        Also when the task is tried again: two tries of it may be at work when a worker was thought
        dead.
        """
        if not self.file:
            yield lambda _: None
            return
        path = self._shares(self.epoch) / f"{number:06}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        begun = path.with_suffix(f".{os.getpid()}")
        with begun.open("w", encoding="utf-8") as opened:
            yield lambda names: opened.writelines(f"{json.dumps(shown(name))}\n" for name in names)
        begun.replace(path)

    def refuse_another(self) -> None:
        """Raise JobError FILE_EXISTS where another file than this run's is in the place."""
        if self.file:
            self._own_is_there()

    def joined(self, note: Callable[[Sequence[int]], None]) -> int:
        """Make the file of its shares, in their order; returns its size in bytes.

        `note` is told the file's identity before it is in its place. Raises JobError
        FILE_NOT_WRITTEN, FILE_EXISTS.
        """
        path, shares = Path(self.file), self._shares(self.epoch)
        begun = shares / "whole"
        try:
            shares.mkdir(parents=True, exist_ok=True)
            with begun.open("wb") as whole:
                for part in sorted(shares.glob("*.jsonl")):
                    with part.open("rb") as source:
                        shutil.copyfileobj(source, whole)
                whole.flush()
                os.fsync(whole.fileno())
            self.refuse_another()
            if self._own_is_there():
                # Of an earlier driver: it goes before this one's is noted in its stead.
                path.unlink()
            note(identity(begun))
            self._place(begun, path)
            size = path.stat().st_size
        except OSError as e:
            raise JobError(
                "FILE_NOT_WRITTEN",
                f"{self.file} cannot be written: {e.strerror or e}.",
                "Look for room and rights in the shared folder; then drive the run again.",
            ) from e
        self.drop()
        return size

    def _own_is_there(self) -> bool:
        path = Path(self.file)
        if not path.exists():
            return False
        if identity(path) != list(self.placed):
            raise self._exists()
        return True

    def _place(self, begun: Path, path: Path) -> None:
        try:
            os.link(begun, path)
        except FileExistsError:
            raise self._exists() from None
        except OSError:
            # A file system on which each file has one name.
            begun.replace(path)

    def _exists(self) -> JobError:
        return JobError(
            "FILE_EXISTS",
            f"{self.file} is there by now, and is not of this run.",
            "Move that file away and drive the run again, or ask for a new run with another name.",
        )

    def drop(self) -> None:
        """Take the shares away, and those of drivers that had the run before."""
        for epoch in range(self.epoch + 1) if self.file else ():
            shutil.rmtree(self._shares(epoch), ignore_errors=True)

    def _shares(self, epoch: int) -> Path:
        return Path(self.file).with_name(f".{self.run}.{epoch}.parts")
