"""Whose a run is, asked of its row: a driver that lost it neither applies nor sends any more."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import psycopg

from spark_jobs.problems import JobError, lost

# The run's row is locked first: of two that apply one run the second finds it done.
_CLAIM: Final = """
SELECT applied, counts, epoch FROM integration_bulkrun WHERE id = %s FOR UPDATE
"""
_STILL: Final = "SELECT 1 FROM integration_bulkrun WHERE id = %s AND epoch = %s"


class Owned(NamedTuple):
    """A run, and the number of the driver that has it: each one that takes it has a higher one."""

    run: str
    epoch: int


def own(session: psycopg.Connection[Any], run: str) -> Owned:
    """The run as it is ours. Raises JobError UNKNOWN_RUN."""
    found = session.execute("SELECT epoch FROM integration_bulkrun WHERE id = %s", [run]).fetchone()
    if found is None:
        raise _gone(run)
    return Owned(run, found[0])


def applied(session: psycopg.Connection[Any], run: str) -> Mapping[str, int] | None:
    """What the run came to if it was applied already, else None."""
    found = session.execute(
        "SELECT counts FROM integration_bulkrun WHERE id = %s AND applied", [run]
    ).fetchone()
    return None if found is None else dict(found[0])


def claimed(session: psycopg.Connection[Any], owned: Owned) -> Mapping[str, int] | None:
    """Lock the run for the commit that applies it; what it came to if it was applied already.

    Raises JobError UNKNOWN_RUN, RUN_TAKEN.
    """
    found = session.execute(_CLAIM, [owned.run]).fetchone()
    if found is None:
        raise _gone(owned.run)
    is_applied, counts, epoch = found
    if is_applied:
        return dict(counts)
    if epoch != owned.epoch:
        raise lost()
    return None


def stay_ours(session: psycopg.Connection[Any], owned: Owned) -> None:
    """Raise JobError RUN_TAKEN where another driver has the run by now."""
    if session.execute(_STILL, [*owned]).fetchone() is None:
        raise lost()


def _gone(run: str) -> JobError:
    return JobError(
        "UNKNOWN_RUN", f"There is no run {run} any more.", "Start a new run with one that is there."
    )
