"""What other runs have archived and not dropped here: nobody archives that once more.

It lies in the folder that a run was told, wherever that is. A folder that cannot be looked at is
not known to be empty, and only a person can say that it is gone.
"""

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any, Final

import psycopg

from spark_jobs.archive.parameters import ArchiveParameters
from spark_jobs.archive.shelving import Shelf
from spark_jobs.errors import JobError

GIVEN_UP: Final = JobError(
    "ARCHIVE_GIVEN_UP",
    "It was given up: archives of its kind no longer wait for what it left.",
    "Nothing: what it did not drop is archived by the next run. If its place comes back after all, "
    "run it again before anything else is archived there.",
)
SQL: Final = (
    "t.job = 'archive' AND t.state <> 'DONE' AND t.plan ? 'parts' "
    f"AND coalesce(t.problem->>0, '') <> '{GIVEN_UP.code}'"
)
"""Of a run t: it may have archived what it did not drop."""
_PLANNED: Final = f"""
SELECT t.parameters->>'folder', array_agg(t.id::text ORDER BY t.asked_at)
FROM integration_bulkrun t WHERE {SQL} AND t.parameters->>'kind' = %s GROUP BY 1 ORDER BY 1"""
_KNOWN: Final = "SELECT id::text FROM integration_bulkrun WHERE id::text = ANY(%s)"


def refuse(
    database: psycopg.Connection[Any],
    parameters: ArchiveParameters,
    shelf_at: Callable[[str], Shelf],
) -> None:
    """Refuse to go on while another run has something unfinished here, or at another place.

    `shelf_at` gives the kind's folder in a folder of archives. Raises JobError ARCHIVE_UNFINISHED;
    ARCHIVE_UNREACHABLE where a run may have left something in a folder that is gone, or that
    nobody lets us look into; what looking into this run's own one raises.
    """
    known = partial(_known, database)
    planned = dict(database.execute(_PLANNED, [str(parameters.kind)]).fetchall())
    here = parameters.folder
    for place in [here, *(one for one in planned if one != here)]:
        shelf = shelf_at(place)
        others = _others(shelf, planned.get(place, ()), known)
        if others:
            raise _unfinished(others[0], shelf)


def _known(database: psycopg.Connection[Any], runs: Collection[str]) -> set[str]:
    """Those of the runs that this database has."""
    return {run for (run,) in database.execute(_KNOWN, [list(runs)])} if runs else set()


def _others(
    shelf: Shelf, planned: Sequence[str], known: Callable[[Collection[str]], set[str]]
) -> list[str]:
    """Runs with something unfinished on a shelf, to which those planned go."""
    try:
        if planned and not shelf.is_there():
            raise FileNotFoundError("there is no such place")
        return shelf.others(known)
    except (JobError, OSError) as e:
        if not planned:
            raise
        raise _unreachable(planned[0], shelf, e) from e


def _unfinished(run: str, shelf: Shelf) -> JobError:
    return JobError(
        "ARCHIVE_UNFINISHED",
        f"The run {run} has archived rows at {shelf.where} and did not come to drop them here: "
        "they would be archived twice.",
        f"Bring that one to its end first: bulk_run {run} --again.",
    )


def _unreachable(run: str, shelf: Shelf, why: JobError | OSError) -> JobError:
    first = why.next_step if isinstance(why, JobError) else "Look whether its disk is there."
    return JobError(
        "ARCHIVE_UNREACHABLE",
        f"The run {run} may have archived rows at {shelf.where} that it did not drop here, and "
        f"nobody can look there: {why}",
        f"{first} If the place is gone for good, give that run up: bulk_run {run} --give-up.",
    )
