"""The speed at which rows of an object storage come into the object store, against a disk."""

from contextlib import closing

from bench.cases.bulk_imports import PAIRS, QUICK_SHARE, SENT_ROWS, Sides
from bench.figure import Figure, at_least
from bench.ground import Ground
from bench.object_storage import ObjectStorage
from bench.pairs import run_pairs
from bench.rig import Rig


class ObjectSides(Sides):
    """The shipped driver, with the same files on a disk and as objects."""

    def __init__(self, rig: Rig, count: int, objects: ObjectStorage) -> None:
        super().__init__(rig, count, objects.environment)
        for source in (self.source, self.all):
            for path in sorted(source.folder.iterdir()):
                objects.put(f"{source.folder.name}/{path.name}", path.read_bytes())

    def from_objects(self) -> float:
        self.place = f"s3://plant/{self.source.folder.name}/"
        try:
            return self.imported()
        finally:
            self.place = ""


def spark_import_s3(ground: Ground) -> Figure:
    """A million rows of CSV from an object storage: each is stored or a failure, and counted."""
    count = SENT_ROWS // QUICK_SHARE if ground.quick else SENT_ROWS
    with ground.rig("spark_import_s3") as rig, closing(ObjectStorage(rig.folder)) as objects:
        sides = ObjectSides(rig, count, objects)
        warm = sides.warm(sides.from_objects, sides.imported)
        paired = run_pairs(
            sides.from_objects, sides.imported, quick=ground.quick, pairs=PAIRS, warm=warm
        )
    return Figure(
        name="spark_import_s3",
        value=paired.value,
        unit="rows/s",
        n=count,
        ratio=paired.ratio,
        against="the same import from a disk; the storage is a server in Python on this machine",
        target=at_least("ratio", 0.7),
        facts={**paired.facts, "rejected": sides.source.bad},
    )
