"""The job itself: plan, write each range in a task of Spark, read the files back, move them.

Into a queue and into an object storage there are other roads: `to_queue`, `to_objects`.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from spark_jobs.errors import balance
from spark_jobs.exports import to_objects, to_queue, writing
from spark_jobs.exports.manifest import MANIFEST, Manifest, manifest_of, outcome_of
from spark_jobs.exports.parameters import ExportParameters, Format
from spark_jobs.exports.planning import Plan, Range
from spark_jobs.exports.reading import Source, opened, rows_of
from spark_jobs.exports.shaping import Row, shaped
from spark_jobs.fencing import Outcome, apply
from spark_jobs.storage import is_object
from spark_jobs.tables import keeping, parquet
from spark_jobs.work import Work


def run(work: Work) -> Outcome:
    """Export everything that is wanted. Raises JobError, Stopped, and the database's errors."""
    parameters = ExportParameters.of(work.arguments.parameters)
    if parameters.target is not None:
        return to_queue.run(work, parameters, parameters.target)
    if is_object(parameters.folder):
        return to_objects.run(work, parameters)
    parent = Path(parameters.folder)
    with keeping.room(parent):
        with work.claimed():
            earlier = keeping.read_json(parent / work.owned.run / MANIFEST)
            folder = keeping.work_folder(parent, work.owned.run)
        try:
            # What is in its place is whole: its driver died before it could say so.
            manifest = earlier or _written(work, parameters, folder)
            return _keep(work, None if earlier else folder, manifest)
        finally:
            keeping.remove(folder)


def _written(work: Work, parameters: ExportParameters, folder: Path) -> Manifest:
    """Write all files, read them back, and say in one more what they are."""
    with opened(work, parameters) as (source, plan, count):
        if parameters.format is Format.PARQUET:
            _write_parquet(work, source, plan, folder)
        else:
            _write_texts(work, source, plan, folder)
    files = _read_back(work, parameters, folder)
    manifest = manifest_of(work, plan.at, count, files)
    keeping.write_json(folder / MANIFEST, manifest)
    return manifest


def _write_texts(work: Work, source: Source, plan: Plan, folder: Path) -> None:
    done, rows = work.counter(), work.counter()

    def task(part: Range) -> None:
        rows.add(writing.write(source, part, folder))
        done.add(1)

    work.each("write", plan.ranges, task, lambda: (done.value, rows.value))


def _write_parquet(work: Work, source: Source, plan: Plan, folder: Path) -> None:
    done, rows = work.counter(), work.counter()

    def read(part: Range) -> Iterator[Row]:
        for row in rows_of(source, part):
            rows.add(1)
            yield row
        done.add(1)

    columns = shaped(source.parameters, source.selection).columns
    frame = parquet.frame(parquet.settled(work.session), plan.ranges, columns, read)
    act = partial(parquet.write, frame, folder / "rows")
    work.watched("write", len(plan.ranges), act, lambda: (done.value, rows.value))
    # Names of our own; what Spark writes beside the files is let go.
    for number, path in enumerate(sorted((folder / "rows").glob("*.parquet"))):
        path.rename(folder / f"part-{number:05}.{Format.PARQUET}")
    keeping.remove(folder / "rows")


def _read_back(work: Work, parameters: ExportParameters, folder: Path) -> list[dict[str, Any]]:
    """Each file as it is on the disk: its rows, its bytes, their SHA-256."""
    names = sorted(path.name for path in folder.glob("part-*"))
    is_parquet = parameters.format is Format.PARQUET
    counted = parquet.counts(parquet.settled(work.session), folder) if is_parquet else {}
    done = work.counter()

    def task(name: str) -> dict[str, Any]:
        sealed = keeping.sealed(folder / name, folder)
        rows = counted.get(name, 0)
        if not is_parquet:
            rows = writing.count_rows(folder / name, parameters)
        done.add(1)
        return {"name": name, "rows": rows, "bytes": sealed.bytes, "sha256": sealed.sha256}

    tasks = work.session.sparkContext.parallelize(names, max(len(names), 1)).map(task)
    return list(work.watched("check", len(names), tasks.collect, lambda: (done.value, 0)))


def _keep(work: Work, folder: Path | None, manifest: Manifest) -> Outcome:
    """Move the whole into place, and write down that it is there; only while the run is ours.

    A driver that dies between the two leaves a whole folder, and the next one finds it.
    """
    counts, facts = outcome_of(manifest, f"exports/{work.owned.run}")
    balance(counts)
    with work.claimed():
        if folder is not None:
            keeping.force(folder)
            folder.rename(folder.parent / work.owned.run)
            keeping.force(folder.parent)
        apply(work.database, work.owned, (counts, facts))
    return counts, facts
