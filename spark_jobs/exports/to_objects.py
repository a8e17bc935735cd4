"""An export into an object storage: each task writes its file where it runs, and hands it over.

No folder is shared. Each try has a folder of its own, so that a driver that was replaced writes
into nothing that counts; what is in it is whole once the manifest is there, which comes last.
"""

import json
import tempfile
from pathlib import Path
from typing import Any
from uuid import uuid4

from spark_jobs.errors import balance
from spark_jobs.exports import writing
from spark_jobs.exports.manifest import MANIFEST, Manifest, manifest_of, outcome_of
from spark_jobs.exports.parameters import ExportParameters
from spark_jobs.exports.planning import Range
from spark_jobs.exports.reading import opened
from spark_jobs.fencing import Outcome, apply
from spark_jobs.storage import Storage
from spark_jobs.tables import keeping
from spark_jobs.work import Work


def run(work: Work, parameters: ExportParameters) -> Outcome:
    """Export everything that is wanted. Raises JobError, Stopped, and the database's errors."""
    storage = Storage.of(work.arguments.storage)
    tries = f"{parameters.folder}{work.owned.run}-"
    with work.claimed():
        storage.remove_folders(tries)
    folder = f"{tries}{uuid4().hex[:8]}/"
    try:
        manifest = _written(work, parameters, storage, folder)
    except BaseException:
        # Nobody would know of it; where the storage is away, the next try removes it.
        storage.remove_folders(folder.removesuffix("/"), is_needed=False)
        raise
    storage.write(f"{folder}{MANIFEST}", json.dumps(manifest, ensure_ascii=False).encode())
    counts, facts = outcome_of(manifest, folder)
    balance(counts)
    # From here on it is not removed: whether the commit came about may be told to nobody.
    with work.claimed():
        apply(work.database, work.owned, (counts, facts))
    return counts, facts


def _written(work: Work, parameters: ExportParameters, storage: Storage, folder: str) -> Manifest:
    done, rows = work.counter(), work.counter()
    with opened(work, parameters) as (source, plan, count):

        def task(part: Range) -> dict[str, Any]:
            with tempfile.TemporaryDirectory(prefix="sluice-") as name:
                own = Path(name)
                written = writing.write(source, part, own)
                [path] = own.iterdir()
                sealed = keeping.sealed(path, own)
                storage.hand_over(path, f"{folder}{path.name}")
            rows.add(written)
            done.add(1)
            facts = {"bytes": sealed.bytes, "sha256": sealed.sha256}
            return {"name": sealed.name, "rows": written, **facts}

        files = work.each("write", plan.ranges, task, lambda: (done.value, rows.value))
        return manifest_of(work, plan.at, count, files)
