"""History cleanup: runs, sent outbox rows, tracking, ended operations and the like, in chunks."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime

from crontasks.builtin import bulk_job
from crontasks.bulk import uploads
from crontasks.cleanup import removing
from crontasks.cleanup.pasts import HISTORY
from crontasks.cleanup.rules import Rule
from crontasks.definitions import crontask
from crontasks.outcome import Context, Outcome
from crontasks.parameters import option
from crontasks.running import history
from integration.store import track_days
from integration.store.sessions import database_time


@dataclass(frozen=True)
class HistoryParameters:
    """The time for which each kind of history is kept."""

    outbox_days: int = option(7, "Sent and cancelled outbox rows, in days.", least=0, most=3_650)
    tracking_days: int = option(30, "What became of every message, in days.", least=0, most=3_650)
    ids_days: int = option(
        30,
        "Message ids by which repeats are dropped, in days; never shorter than the topic keeps.",
        least=7,
        most=3_650,
    )
    keys_days: int = option(
        30,
        "Idempotency keys of the HTTP API, in days: so long a repeated post is answered as the "
        "first one was.",
        least=1,
        most=3_650,
    )
    notices_days: int = option(90, "Notices that are over, in days.", least=1, most=3_650)
    operations_days: int = option(
        90, "Bulk operations that have ended, in days.", least=1, most=3_650
    )
    uploads_days: int = option(
        30, "Uploads for bulk jobs whose runs have ended, in days.", least=1, most=3_650
    )
    stages_days: int = option(
        7, "What bulk runs that have ended had staged, in days.", least=1, most=3_650
    )
    bulk_days: int = option(
        90,
        "Bulk runs of Spark that have ended, their rejects closed, in days.",
        least=1,
        most=3_650,
    )
    decisions_days: int | None = option(
        None, "What people decided and changed, in days; empty = forever.", least=30, most=36_500
    )
    chunk_rows: int = option(5_000, "Rows in one statement.", least=1, most=100_000)


@crontask("history_cleanup", title="History cleanup", parameters=HistoryParameters)
class HistoryCleanup:
    """Removes runs beyond each instance's number to keep, and other history past its days.

    That is: sent outbox rows, tracking, batch logs and message
    ids the topic has outlived, receipts and idempotency keys of the HTTP API, notices that are
    over, ended bulk operations and abandoned ones, ended bulk runs, what they staged and what was
    uploaded for them, and, where days are set, what people decided. Rows that still wait, are in
    doubt or dead stay.
    """

    rules: tuple[Rule, ...] = HISTORY

    def run(self, parameters: HistoryParameters, context: Context) -> Outcome:
        at = database_time()
        values = self.sql_values(parameters, at)
        counts = {
            rule.name: removing.remove(rule, values, context.should_stop).total()
            for rule in HISTORY
        }
        track_days.make_ahead()
        files = uploads.remove_old(parameters.uploads_days, at, bulk_job.scheduled())
        more = {"uploads": files, "lost_runs": history.mark_lost()}
        return Outcome(counts={**counts, **more})

    @staticmethod
    def sql_values(parameters: HistoryParameters, at: datetime) -> Mapping[str, object]:
        """The parameters of the rules' SQL."""
        return {**asdict(parameters), "at": at, "chunk": parameters.chunk_rows}
