"""The folder that the web and the Spark driver share: uploads, exports, the archive."""

from pathlib import Path

from django.conf import settings

from crontasks.bulk.errors import BulkError
from spark_jobs.problems import JobError


def root() -> Path:
    """Raises BulkError NO_BULK_ROOT where no folder is set."""
    found: Path | None = settings.SLUICE_BULK_ROOT
    if found is None:
        raise BulkError(
            JobError(
                "NO_BULK_ROOT",
                "No folder is set for the files of bulk jobs.",
                "Set SLUICE_BULK_ROOT to a folder that the web and the Spark driver share.",
            )
        )
    return found.absolute()


def inside(name: str) -> Path:
    """The path of a name within the folder, whatever links and dots it has.

    Raises BulkError OUTSIDE_FOLDER for one that leads out of it, NO_BULK_ROOT.
    """
    folder = root().resolve()
    path = (folder / name).resolve()
    if not name or "\0" in name or not path.is_relative_to(folder):
        raise BulkError(
            JobError(
                "OUTSIDE_FOLDER",
                f"{name!r} does not lie within the folder of bulk jobs.",
                "Name a file within it, without a leading slash.",
            )
        )
    return path
