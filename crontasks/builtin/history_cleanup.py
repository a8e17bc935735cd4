"""History cleanup: runs, sent outbox rows, tracking, batch logs and old notices, in chunks."""

from dataclasses import dataclass
from typing import Final

from crontasks import history
from crontasks.cursor import django_cursor
from crontasks.definitions import crontask
from crontasks.outcome import Context, Outcome
from crontasks.parameters import option


@dataclass(frozen=True)
class HistoryParameters:
    """How long each kind of history is kept."""

    outbox_days: int = option(7, "Sent and cancelled outgoing rows, in days.", least=0, most=3_650)
    tracking_days: int = option(30, "What became of every message, in days.", least=0, most=3_650)
    notices_days: int = option(90, "Notices that are over, in days.", least=1, most=3_650)
    chunk_rows: int = option(5_000, "Rows in one statement.", least=1, most=100_000)


# Each takes a chunk by its primary key; an index or the insertion order finds the old ones.
_OUTBOX: Final = """
    DELETE FROM integration_outboxrow WHERE id IN (
        SELECT id FROM integration_outboxrow
        WHERE (state = 'PUBLISHED' AND published_at < clock_timestamp() - make_interval(days => %s))
           OR (state = 'CANCELLED' AND created_at < clock_timestamp() - make_interval(days => %s))
        ORDER BY id LIMIT %s)"""
_TRACKING: Final = """
    DELETE FROM integration_messagetrack WHERE id IN (
        SELECT id FROM integration_messagetrack
        WHERE at < clock_timestamp() - make_interval(days => %s) ORDER BY id LIMIT %s)"""
# A replay needs the numbers for as long as the topic keeps the records.
_BATCHES: Final = """
    DELETE FROM integration_batchlog WHERE number IN (
        SELECT b.number FROM integration_batchlog b
        JOIN integration_queuepartition p ON p.id = b.partition_id
        JOIN integration_queue q ON q.id = p.queue_id
        WHERE b.committed_at < clock_timestamp() - make_interval(secs => q.retention_seconds)
          AND (p.low_watermark IS NULL OR b.to_offset < p.low_watermark
               OR b.topic_uuid <> p.topic_uuid)
        ORDER BY b.number LIMIT %s)"""
_RUNS: Final = """
    DELETE FROM crontasks_cronrun WHERE id IN (
        SELECT r.id FROM (
            SELECT id, instance_id, row_number() OVER (
                PARTITION BY instance_id ORDER BY started_at DESC, id DESC) AS place
            FROM crontasks_cronrun WHERE state <> 'RUNNING') r
        JOIN crontasks_croninstance i ON i.id = r.instance_id
        WHERE r.place > i.keep_runs LIMIT %s)"""
_NOTICES: Final = """
    DELETE FROM crontasks_notice WHERE id IN (
        SELECT id FROM crontasks_notice
        WHERE closed_at < clock_timestamp() - make_interval(days => %s) LIMIT %s)"""
_HEARTS: Final = """
    DELETE FROM crontasks_heartbeat WHERE id IN (
        SELECT id FROM crontasks_heartbeat
        WHERE seen_at < clock_timestamp() - interval '1 day' LIMIT %s)"""


@crontask("history_cleanup", title="History cleanup", parameters=HistoryParameters)
class HistoryCleanup:
    """Removes runs beyond each instance's number to keep, and other history past its days.

    That is: sent outgoing rows, tracking, batch logs the topic has outlived, notices that are
    over. Rows that still wait, are in doubt or dead stay.
    """

    def run(self, parameters: HistoryParameters, context: Context) -> Outcome:
        chunk, sent = parameters.chunk_rows, parameters.outbox_days
        steps: dict[str, tuple[str, tuple[int, ...]]] = {
            "outbox": (_OUTBOX, (sent, sent, chunk)),
            "tracking": (_TRACKING, (parameters.tracking_days, chunk)),
            "batches": (_BATCHES, (chunk,)),
            "runs": (_RUNS, (chunk,)),
            "notices": (_NOTICES, (parameters.notices_days, chunk)),
            "heartbeats": (_HEARTS, (chunk,)),
        }
        counts = {
            name: _remove(statement, limits, context) for name, (statement, limits) in steps.items()
        }
        return Outcome(counts={**counts, "lost_runs": history.mark_lost()})


def _remove(statement: str, limits: tuple[int, ...], context: Context) -> int:
    removed = 0
    while not context.should_stop():
        with django_cursor() as cursor:
            cursor.execute(statement, limits)
            count: int = cursor.rowcount
        removed += count
        if count < limits[-1]:
            break
    return removed
