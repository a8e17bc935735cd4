"""The run as its row has it: whose it is, who asked for it, and whether it is done already."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import psycopg

from spark_jobs.problems import JobError, lost

_READ: Final = """
SELECT epoch, actor, reason, applied, counts, facts FROM integration_bulkrun WHERE id = %s
"""
# Held until the commit: another driver takes the run before it, or after it.
_FENCE: Final = """
SELECT 1 FROM integration_bulkrun WHERE id = %s AND epoch = %s AND NOT applied FOR SHARE
"""


class Ours(NamedTuple):
    """A run that this driver has, and carries the epoch of."""

    run: str
    epoch: int
    actor: str
    reason: str
    applied: bool
    counts: Mapping[str, int]
    facts: Mapping[str, Any]


def ours(session: psycopg.Connection[Any], run: str) -> Ours:
    """Read before a driver asks whether it may go on: an epoch only ever rises.

    Raises JobError UNKNOWN_RUN.
    """
    found = session.execute(_READ, [run]).fetchone()
    if found is None:
        raise JobError(
            "UNKNOWN_RUN", f"There is no run {run} any more.", "Start a new run with one that is."
        )
    return Ours(run, *found)


def fence(session: psycopg.Connection[Any], mine: Ours) -> None:
    """Say in a transaction, as the last thing, that it counts only if the run is still ours.

    Raises JobError RUN_TAKEN.
    """
    if session.execute(_FENCE, [mine.run, mine.epoch]).fetchone() is None:
        raise lost()
