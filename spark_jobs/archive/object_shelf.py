"""The folder of an archive's files in an object storage.

No folder is shared: tasks hand files over into a hidden folder of the try. What has been handed
over is fetched once more, and that is what counts.
"""

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from spark_jobs.archive.shelving import FileEntry, Keep, Manifest, Shelf, damaged, file_entry
from spark_jobs.archive.sources import KEY
from spark_jobs.errors import JobError
from spark_jobs.storage import READ_AHEAD_BYTES, Storage
from spark_jobs.tables import arrow, keeping
from spark_jobs.tables.columns import Column, digest
from spark_jobs.work import Work

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class ObjectShelf(Shelf):
    """A folder of an object storage; objects are there whole or not at all."""

    def __init__(self, storage: Storage, folder: str, work: Work, installation: str) -> None:
        super().__init__(work.owned.run, installation)
        self.storage, self.folder = storage, folder
        self._work = work

    @property
    def where(self) -> str:
        return self.folder

    def is_there(self) -> bool:
        # A folder in which nothing lies is none; its bucket stays.
        return bool(self._names("")) or self.storage.has_bucket(self.folder)

    def make(self) -> None:
        """A storage has no folders of its own."""

    def work_folder(self) -> str:
        self.storage.remove_folders(f"{self.folder}.{self.owner}-")
        return f".{self.owner}-{uuid4().hex[:8]}"

    def remove(self, work: str) -> None:
        self.storage.remove_folders(f"{self.folder}{work}", is_needed=False)

    def place(self, manifest: Mapping[str, Any]) -> None:
        act = partial(_place, self.storage, self.folder, manifest["work"])
        self._work.each("place", manifest["files"], act, lambda: (0, 0))
        self.remove(manifest["work"])

    def shared_folder(self, work: str) -> None:
        """Tasks have folders of their own, each on its machine."""

    def keeping(self, work: str, columns: Sequence[Column]) -> Keep:
        return partial(_hand_over, self.storage, f"{self.folder}{work}/", columns)

    def archived(
        self, spark: "SparkSession", manifest: Manifest, columns: Sequence[Column]
    ) -> Iterator[tuple[Any, str]]:
        names = [f"{self.folder}{file['name']}" for file in manifest["files"]]
        act = partial(_digests, self.storage, columns)
        tasks = spark.sparkContext.parallelize(names, len(names)).flatMap(act)
        return iter(tasks.toLocalIterator())

    def _names(self, folder: str) -> Sequence[str]:
        return self.storage.inside(f"{self.folder}{folder}")

    def _read(self, name: str) -> Manifest | None:
        content = self.storage.read(f"{self.folder}{name}")
        return None if content is None else dict(json.loads(content))

    def _write(self, name: str, manifest: Mapping[str, Any]) -> None:
        content = json.dumps(manifest, ensure_ascii=False, indent=1).encode()
        self.storage.write(f"{self.folder}{name}", content)

    def _forget(self, name: str) -> None:
        self.storage.remove(f"{self.folder}{name}")


def _hand_over(
    storage: Storage, folder: str, columns: Sequence[Column], path: Path, name: str
) -> FileEntry:
    """Hand a file over; its entry is made of what the storage gives back."""
    storage.hand_over(path, f"{folder}{name}")
    path.unlink()
    with storage.open(f"{folder}{name}") as there, path.open("wb") as back:
        shutil.copyfileobj(there, back, READ_AHEAD_BYTES)
    entry = file_entry(path, columns, name)
    path.unlink()
    return entry


def _place(storage: Storage, folder: str, work: str, file: Mapping[str, Any]) -> None:
    """Copy a file to its place unless it is there, and look at it there."""
    place = f"{folder}{file['name']}"
    if storage.facts(place) is None:
        try:
            storage.copy(f"{folder}{work}/{file['from']}", place)
        except JobError as e:
            if e.code == "OBJECT_GONE":
                raise damaged(file["name"], "it is neither in its place nor beside it") from e
            raise
    with storage.open(place) as there:
        sealed = keeping.read_through(there)
    if sealed != (file["bytes"], file["sha256"]):
        raise damaged(file["name"], "it is not the file that was verified")


def _digests(storage: Storage, columns: Sequence[Column], name: str) -> Iterator[tuple[Any, str]]:
    key = [column.name for column in columns].index(KEY)
    for values in arrow.read(storage.arrow(name), columns):
        yield values[key], digest(values)
