"""Errors cleanup: takes closed failures away once their retention is over; never an open one."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from crontasks.cleanup import removing, simulation
from crontasks.cleanup.failures import FAILURES
from crontasks.cleanup.rules import Rule
from crontasks.definitions import crontask
from crontasks.outcome import Context, Outcome
from crontasks.parameters import option
from integration.counting import so_many
from integration.store.sessions import database_time


@dataclass(frozen=True)
class CleanupParameters:
    """The settings of the cleanup."""

    chunk_rows: int = option(1_000, "Rows in one transaction.", least=1, most=50_000)
    simulate: bool = option(False, "Only count what would go; nothing is removed.")


@crontask("errors_cleanup", title="Errors cleanup", parameters=CleanupParameters)
class ErrorsCleanup:
    """Removes closed failures once their queue's retention is over, at least seven days.

    The days count from the closing. Open failures are never removed, expired or not.
    """

    rules: tuple[Rule, ...] = (FAILURES,)

    def run(self, parameters: CleanupParameters, context: Context) -> Outcome:
        values = self.sql_values(parameters, database_time())
        if parameters.simulate:
            return _simulated(values, context)
        counts = {"RESOLVED": 0, "DELETED": 0}
        counts.update(removing.remove(FAILURES, values, context.should_stop))
        return Outcome(counts=counts)

    @staticmethod
    def sql_values(parameters: CleanupParameters, at: datetime) -> Mapping[str, object]:
        """The parameters of the rules' SQL."""
        return {"at": at, "chunk": parameters.chunk_rows}


def _simulated(values: Mapping[str, object], context: Context) -> Outcome:
    at = values["at"]
    assert isinstance(at, datetime)  # noqa: S101 - written a line above
    (forecast,) = simulation.forecast((FAILURES,), values, (at,))
    for old in forecast.old:
        context.say(
            f"{so_many(old.rows, 'row')} {old.status}, closed {so_many(old.days, 'day')} ago, "
            f"about {old.size_bytes:,} bytes"
        )
    return Outcome(counts=forecast.by_status, text="Simulated: nothing was removed.")
