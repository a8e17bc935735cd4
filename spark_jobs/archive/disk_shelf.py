"""The folder of an archive's files on a disk, or on one that several machines share."""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark_jobs.archive.shelving import (
    ENDED,
    PENDING,
    FileEntry,
    Keep,
    Manifest,
    Shelf,
    damaged,
    file_entry,
)
from spark_jobs.archive.sources import KEY
from spark_jobs.tables import keeping, parquet
from spark_jobs.tables.columns import Column, digest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class DiskShelf(Shelf):
    """A folder that the driver and all tasks see under one path."""

    def __init__(self, folder: Path, run: str, installation: str) -> None:
        super().__init__(run, installation)
        self.folder = folder

    @property
    def where(self) -> str:
        return str(self.folder)

    def is_there(self) -> bool:
        return (self.folder / PENDING).is_dir()

    def make(self) -> None:
        for name in (PENDING, ENDED):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        # Files whose folder is not there after a power failure are not there either.
        for folder in (self.folder, *list(self.folder.parents)[:2]):
            keeping.force(folder)

    def work_folder(self) -> str:
        return keeping.work_folder(self.folder, self.owner).name

    def remove(self, work: str) -> None:
        keeping.remove(self.folder / work)

    def place(self, manifest: Mapping[str, Any]) -> None:
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

    def shared_folder(self, work: str) -> Path:
        return self.folder / work

    def keeping(self, work: str, columns: Sequence[Column]) -> Keep:
        return partial(_lay_down, self.folder / work, columns)

    def archived(
        self, spark: "SparkSession", manifest: Manifest, columns: Sequence[Column]
    ) -> Iterator[tuple[Any, str]]:
        paths = [self.folder / file["name"] for file in manifest["files"]]
        rows = parquet.read(spark, self.folder, paths, columns)
        key = [column.name for column in columns].index(KEY)
        return iter(rows.rdd.map(lambda row: (row[key], digest(row[:-1]))).toLocalIterator())

    def _names(self, folder: str) -> Sequence[str]:
        pattern = "[!.]*.json" if folder else ".*-*"
        return [path.name for path in (self.folder / folder).glob(pattern)]

    def _read(self, name: str) -> Manifest | None:
        return keeping.read_json(self.folder / name)

    def _write(self, name: str, manifest: Mapping[str, Any]) -> None:
        keeping.write_json(self.folder / name, manifest)

    def _forget(self, name: str) -> None:
        (self.folder / name).unlink(missing_ok=True)

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


def _lay_down(folder: Path, columns: Sequence[Column], path: Path, name: str) -> FileEntry:
    place = folder / name
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(path, place)
    path.unlink()
    keeping.force(place.parent)
    return file_entry(place, columns, name)
