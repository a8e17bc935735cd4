"""The one commit of a replay: it holds the run's row, does its work, and says that it is done."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import psycopg
from psycopg.types.json import Jsonb

from spark_jobs.problems import JobError, Stopped, lost, unbalanced
from spark_jobs.repairs.owning import Ours
from spark_jobs.replay.staging import Stage

# The run's row is locked first: of two that apply one run the second finds it done.
_CLAIM: Final = """
SELECT epoch, applied, counts, facts, cancel_asked_at IS NOT NULL FROM integration_bulkrun
WHERE id = %s FOR UPDATE
"""
_APPLIED: Final = """
UPDATE integration_bulkrun SET applied = true, counts = %s, facts = %s WHERE id = %s
"""
Outcome = tuple[Mapping[str, int], Mapping[str, Any]]
"""The counts of a report, and its facts."""


def apply(
    session: psycopg.Connection[Any],
    tables: Stage,
    whose: tuple[Ours, int],
    work: Callable[[], Outcome],
) -> Outcome:
    """Do the work and say that it was done, in one commit; or find that it was.

    `whose` is the run as its driver found it, and how many shares it has. Raises JobError
    UNKNOWN_RUN, NOT_STAGED, RUN_TAKEN, UNBALANCED, Stopped, and what the work raises.
    """
    mine, shares = whose
    with session.transaction():
        claimed = session.execute(_CLAIM, [mine.run]).fetchone()
        if claimed is None:
            raise JobError("UNKNOWN_RUN", "The run's row is gone.", "Ask for a new run.")
        epoch, is_applied, counts, facts, is_cancelled = claimed
        if epoch != mine.epoch:
            raise lost()
        if is_applied:
            tables.drop(session)
            return dict(counts), dict(facts)
        if is_cancelled:
            raise Stopped
        staged, _ = tables.staged(session)
        if staged != shares:
            raise JobError(
                "NOT_STAGED",
                f"{staged:,} of {shares:,} shares are staged.",
                "Drive the run again: it goes on where it stopped.",
            )
        counts, facts = work()
        if counts["read"] != counts["sent"] + counts["rejected"] + counts["skipped"]:
            raise unbalanced(counts)
        session.execute(_APPLIED, [Jsonb(counts), Jsonb(facts), mine.run])
        tables.drop(session)
    return counts, facts
