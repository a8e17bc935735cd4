"""Proves that the web and the Spark driver share a folder: what the one wrote, the other reads.

An upload is of no use where the driver looks at another disk under the same name. So the web
leaves a sentinel with each run that reads from the folder, and the driver begins by reading it.
"""

import os
from pathlib import Path
from typing import Final

from crontasks.bulk.errors import unwritable
from crontasks.bulk.storage import UPLOADS, inside
from integration.models import BulkRun
from spark_jobs.problems import JobError

SENTINEL: Final = ".sentinel-"


def leave(run: BulkRun) -> None:
    """Write the run's sentinel and note where it lies. Raises BulkError UPLOAD_FAILED."""
    place = inside(f"{UPLOADS}/{SENTINEL}{run.pk}")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with place.open("w") as file:
            file.write(str(run.pk))
            file.flush()
            os.fsync(file.fileno())
    except OSError as e:
        raise unwritable(e) from e
    run.sentinel = str(place)


def prove(run: BulkRun) -> None:
    """Read the sentinel that the web left, if it left one. Raises JobError UPLOAD_NOT_SHARED."""
    if not run.sentinel:
        return
    try:
        said = Path(run.sentinel).read_text()
    except OSError as e:
        raise _not_shared(f"{run.sentinel} cannot be read here: {e.strerror}") from e
    if said != str(run.pk):
        raise _not_shared(f"{run.sentinel} is not the one that the web wrote")


def _not_shared(why: str) -> JobError:
    return JobError(
        "UPLOAD_NOT_SHARED",
        f"The driver does not see the folder that the web writes uploads to: {why}.",
        "Let SLUICE_BULK_ROOT lead to the same folder under the same name for both, then run it "
        "again.",
    )
