"""The folder of an archive's files, and how far each part of a run has come there.

The files of a part are written into a hidden folder. Once they are verified a **pending** manifest
names them: from then on the part is never written again, only brought to its end. When its rows are
gone from the database, the manifest says so in its last place.
"""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from spark_jobs.errors import JobError
from spark_jobs.tables import keeping

PENDING: Final = "_pending"
ENDED: Final = "_manifests"
Manifest = dict[str, Any]


class Shelf:
    """The folder of one kind, as one run sees it."""

    def __init__(self, folder: Path, run: str) -> None:
        self.folder = folder
        self.run = run

    def make(self) -> None:
        for name in (PENDING, ENDED):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        # Files whose folder is not there after a power failure are not there either.
        for folder in (self.folder, *list(self.folder.parents)[:2]):
            keeping.force(folder)

    def others(self) -> list[str]:
        """Runs whose files are there and whose rows may be here as well."""
        names = (path.name for path in self._pendings() if not self._has_ended(path))
        return sorted({name.rsplit("-", 1)[0] for name in names} - {self.run})

    def ended(self, part: int) -> Manifest | None:
        return keeping.read_json(self._manifest(ENDED, part))

    def pending(self, part: int) -> Manifest | None:
        return keeping.read_json(self._manifest(PENDING, part))

    def seal(self, part: int, manifest: Mapping[str, Any]) -> None:
        """The part's files are verified: nothing of it is written again."""
        keeping.write_json(self._manifest(PENDING, part), manifest)

    def end(self, part: int, manifest: Mapping[str, Any]) -> None:
        """The part's rows are gone, or stay for good reasons."""
        keeping.write_json(self._manifest(ENDED, part), manifest)
        self.forget(part)

    def forget(self, part: int) -> None:
        """Take away what says that the part is not at its end."""
        self._manifest(PENDING, part).unlink(missing_ok=True)

    def tidy(self) -> None:
        """Take away what drivers that died left of other runs, where `others` names none.

        Only for a caller that is alone here: nobody has left the hidden folder of a run at work.
        """
        for path in self._pendings():
            if self._has_ended(path):
                path.unlink(missing_ok=True)
        for folder in self.folder.glob(".*-*"):
            if not folder.name.startswith(f".{self.run}-"):
                keeping.remove(folder)

    def place(self, manifest: Mapping[str, Any]) -> None:
        """Bring the files to their places and look at each there. Raises JobError ARCHIVE_DAMAGED.

        Another driver may do the same: a file that is there already is looked at all the same.
        """
        work = self.folder / manifest["work"]
        for file in manifest["files"]:
            place = self.folder / file["name"]
            place.parent.mkdir(exist_ok=True)
            self._move(work / file["from"], place)
        for day in {(self.folder / file["name"]).parent for file in manifest["files"]}:
            keeping.force(day)
        keeping.force(self.folder)
        for file in manifest["files"]:
            self._look_at(file)
        keeping.remove(work)

    def paths(self, manifest: Manifest) -> list[Path]:
        return [self.folder / file["name"] for file in manifest["files"]]

    def _pendings(self) -> list[Path]:
        return list((self.folder / PENDING).glob("[!.]*.json"))

    def _has_ended(self, pending: Path) -> bool:
        """A driver may die, or the machine, between the last manifest and the end of the first."""
        return (self.folder / ENDED / pending.name).exists()

    def _move(self, beside: Path, place: Path) -> None:
        with suppress(FileNotFoundError):
            if not place.exists():
                beside.rename(place)
        if not place.exists():
            raise damaged(place.name, "it is neither in its place nor beside it")

    def _look_at(self, file: Mapping[str, Any]) -> None:
        sealed = keeping.sealed(self.folder / file["name"], self.folder)
        if (sealed.bytes, sealed.sha256) != (file["bytes"], file["sha256"]):
            raise damaged(file["name"], "it is not the file that was verified")

    def _manifest(self, where: str, part: int) -> Path:
        return self.folder / where / f"{self.run}-{part:03}.json"


def damaged(name: str, why: str) -> JobError:
    """Make the error of files that are not what was written: nothing more is dropped."""
    return JobError(
        "ARCHIVE_DAMAGED",
        f"{name} cannot be trusted: {why}. Nothing more is removed here.",
        "Look at the disk of SLUICE_BULK_ROOT, then let the run go on.",
    )
