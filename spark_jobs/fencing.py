"""What a driver may still write: only while the run is its own, and only what was not done yet."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import psycopg
from psycopg.types.json import Jsonb

from spark_jobs.contract import Arguments
from spark_jobs.problems import JobError, lost

_CLAIM: Final = "SELECT epoch, applied, counts FROM integration_bulkrun WHERE id = %s FOR UPDATE"
_APPLIED: Final = "UPDATE integration_bulkrun SET applied = true, counts = %s WHERE id = %s"


class Claim(NamedTuple):
    """How a run stands: whether it was done, and what it came to."""

    applied: bool
    counts: Mapping[str, int]


@contextmanager
def claimed(session: psycopg.Connection[Any], arguments: Arguments) -> Iterator[Claim]:
    """A transaction in which nobody takes the run from this driver; whoever wants it waits.

    Short, because its lease is not renewed meanwhile. Raises JobError RUN_TAKEN, UNKNOWN_RUN.
    """
    with session.transaction():
        found = session.execute(_CLAIM, [arguments.run]).fetchone()
        if found is None:
            raise JobError(
                "UNKNOWN_RUN",
                f"There is no run {arguments.run} any more.",
                "Start a new run.",
            )
        epoch, applied, counts = found
        if arguments.epoch not in (None, epoch):
            raise lost()
        yield Claim(applied, counts)


def apply(session: psycopg.Connection[Any], run: str, counts: Mapping[str, int]) -> None:
    """Write down, within `claimed`, that all of it is done."""
    session.execute(_APPLIED, [Jsonb(dict(counts)), run])
