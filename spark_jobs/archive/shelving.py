"""The folder of an archive's files, and how far each part of a run has come there.

The files of a part are written into a hidden folder. Once they are verified a **pending** manifest
names them: from then on the part is never written again, only brought to its end. When its rows are
gone from the database, the manifest says so in its last place.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from spark_jobs.errors import JobError
from spark_jobs.tables import arrow, keeping
from spark_jobs.tables.columns import Column

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PENDING: Final = "_pending"
ENDED: Final = "_manifests"
# Of the name of a hidden folder: the run, a hyphen and eight digits.
_BEHIND_INSTALLATION: Final = 36 + 1 + 8
Manifest = dict[str, Any]
FileEntry = dict[str, Any]
"""What a manifest says of one file: `rows` and their `sum`, `bytes` and `sha256`, and its names."""
Keep = Callable[[Path, str], FileEntry]
"""Keeps a task's file under a name; its entry is made of what is kept there."""


class Shelf(ABC):
    """The folder of one kind, as one run sees it: on a disk, or in an object storage.

    Several installations may share it: each touches what is unfinished of its own runs alone.
    Whoever implements it keeps small files of JSON whole or not at all.
    """

    def __init__(self, run: str, installation: str) -> None:
        self.run, self.installation = run, installation

    @property
    def owner(self) -> str:
        """What the names of this run's hidden folders begin with, behind their dot."""
        return f"{self.installation}-{self.run}" if self.installation else self.run

    @property
    @abstractmethod
    def where(self) -> str:
        """The folder as a person knows it."""

    @abstractmethod
    def is_there(self) -> bool:
        """Return whether the folder was made, and did not vanish since; may ask the storage.

        Raises OSError, JobError STORAGE_FAILED where nobody can tell.
        """

    @abstractmethod
    def make(self) -> None:
        """Have the folder there."""

    @abstractmethod
    def work_folder(self) -> str:
        """The name of a new hidden folder; what earlier tries of this run left is removed."""

    @abstractmethod
    def remove(self, work: str) -> None:
        """Remove a hidden folder, as far as that is possible."""

    @abstractmethod
    def shared_folder(self, work: str) -> Path | None:
        """A hidden folder as a path that all tasks see; None where they share no folder."""

    @abstractmethod
    def keeping(self, work: str, columns: Sequence[Column]) -> Keep:
        """What keeps the files of tasks in a hidden folder. Tasks are given a copy of it."""

    @abstractmethod
    def archived(
        self, spark: "SparkSession", manifest: Manifest, columns: Sequence[Column]
    ) -> Iterator[tuple[Any, str]]:
        """Key and digest of every row, as the files in their places tell them."""

    @abstractmethod
    def place(self, manifest: Mapping[str, Any]) -> None:
        """Bring the files to their places and look at each there. Raises JobError ARCHIVE_DAMAGED.

        Another driver may do the same: a file that is there already is looked at all the same.
        """

    def others(self, known: Callable[[Collection[str]], set[str]]) -> list[str]:
        """Runs whose files are there and whose rows may be here as well.

        They are of this installation, or runs that its database has, under whatever name they
        were asked for; `known` says which of some runs those are.
        """
        names = set(self._names(PENDING)) - set(self._names(ENDED))
        others = {name: run for name in names if (run := _run_of(name)) != self.run}
        ours = known(set(others.values()))
        return sorted({run for name, run in others.items() if run in ours or self._is_ours(name)})

    def ended(self, part: int) -> Manifest | None:
        return self._read(self._manifest(ENDED, part))

    def pending(self, part: int) -> Manifest | None:
        return self._read(self._manifest(PENDING, part))

    def seal(self, part: int, manifest: Mapping[str, Any]) -> None:
        """The part's files are verified: nothing of it is written again."""
        self._write(self._manifest(PENDING, part), manifest)

    def end(self, part: int, manifest: Mapping[str, Any]) -> None:
        """The part's rows are gone, or stay for good reasons."""
        self._write(self._manifest(ENDED, part), manifest)
        self.forget(part)

    def forget(self, part: int) -> None:
        """Take away what says that the part is not at its end."""
        self._forget(self._manifest(PENDING, part))

    def tidy(self) -> None:
        """Take away what dead drivers left of other runs of ours, where `others` names none.

        A driver may die between the last manifest of a part and the end of the first. Only for a
        caller that is alone here: nobody has left the hidden folder of a run at work.
        """
        for name in set(self._names(PENDING)) & set(self._names(ENDED)):
            if self._is_ours(name):
                self._forget(f"{PENDING}/{name}")
        ours = f".{self.installation}-"
        for name in self._names(""):
            # By its length, too: another installation's name may begin as ours does.
            is_ours = name.startswith(ours) and len(name) == len(ours) + _BEHIND_INSTALLATION
            if is_ours and not name.startswith(f".{self.owner}-"):
                self.remove(name)

    def _is_ours(self, name: str) -> bool:
        """Return whether a pending manifest may be of a run of this installation.

        It is where nobody says so: the release before named no installation.
        """
        manifest = self._read(f"{PENDING}/{name}")
        if manifest is None:
            return False
        theirs = manifest.get("installation")
        return not theirs or not self.installation or theirs == self.installation

    def _manifest(self, where: str, part: int) -> str:
        return f"{where}/{self.run}-{part:03}.json"

    @abstractmethod
    def _names(self, folder: str) -> Sequence[str]:
        """What lies right inside a folder of this one; of manifests those that are whole."""

    @abstractmethod
    def _read(self, name: str) -> Manifest | None:
        """A manifest, or None where there is none."""

    @abstractmethod
    def _write(self, name: str, manifest: Mapping[str, Any]) -> None:
        """Keep a manifest, whole or not at all."""

    @abstractmethod
    def _forget(self, name: str) -> None:
        """Remove a manifest, if it is there."""


def file_entry(path: Path, columns: Sequence[Column], name: str) -> FileEntry:
    """The entry of a file that is called `name` in its hidden folder, made of the file itself."""
    sealed, tally = keeping.sealed(path, path.parent), arrow.tally(path, columns)
    facts = {"bytes": sealed.bytes, "sha256": sealed.sha256}
    return {"from": name, "rows": tally.rows, "sum": tally.sum, **facts}


def _run_of(manifest: str) -> str:
    """The run that a manifest is named after."""
    return manifest.rsplit("-", 1)[0]


def damaged(name: str, why: str) -> JobError:
    """Make the error of files that are not what was written: nothing more is dropped."""
    return JobError(
        "ARCHIVE_DAMAGED",
        f"{name} cannot be trusted: {why}. Nothing more is removed here.",
        "Look at the disk or the storage of the archive, then let the run go on.",
    )
