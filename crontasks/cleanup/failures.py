"""The rule of the errors cleanup: closed failures past their queue's retention."""

from typing import Final

from crontasks.cleanup.rules import Rule, Spared
from integration.policy.states import OPEN_SQL
from integration.store import decisions

LEAST_DAYS: Final = 7
CLOSED: Final = "t.state IN ('RESOLVED', 'DELETED') AND t.closed_at IS NOT NULL"
# In the words of the index of open failures: counting them reads no closed one.
OPEN_ONES: Final = f"t.state IN {OPEN_SQL}"
OVER: Final = f"""{CLOSED}
    AND t.closed_at < {{at}} - interval '{LEAST_DAYS} days'
    AND t.closed_at < {{at}} - make_interval(secs => q.retention_seconds)"""
# A run sees it when it comes to its message, and passes that: without it, the message would be
# applied. A continuous queue comes to one that is closed where its position went back.
AHEAD: Final = """(q.kind = 'continuous' OR t.state = 'DELETED'
        OR t.ended IN ('RETURNED', 'DELIVERED'))
    AND t.offset >= coalesce((
        SELECT p.next_offset FROM integration_queuepartition p
        WHERE p.queue_id = q.id AND p.partition = t.partition
          AND p.topic_uuid = t.topic_uuid), t.offset + 1)"""
WANTED: Final = """EXISTS (
        SELECT 1 FROM integration_operationitem i
        JOIN integration_operation o ON o.id = i.operation_id
        WHERE i.error_id = t.id AND i.outcome = ''
          AND o.state IN ('PLANNED', 'RUNNING', 'PAUSED'))"""
# As they lie on the disk, compressed: nothing is read to be measured.
SIZE: Final = """300 + coalesce(pg_column_size(t.payload), 0)
    + coalesce(pg_column_size(t.edited_payload), 0) + coalesce(pg_column_size(t.headers), 0)
    + coalesce(pg_column_size(t.detail), 0) + coalesce(pg_column_size(t.text), 0)"""

FAILURES: Final = Rule(
    name="failures",
    title="Closed failures",
    what="Resolved and deleted failures, with their attempts, once the retention of their queue "
    f"is over: at least {LEAST_DAYS} days after they were closed. What people decided about them "
    "stays, without payloads.",
    keeps=f"the queue's retention, at least {LEAST_DAYS} days",
    source="integration_messageerror t JOIN integration_queue q ON q.id = t.queue_id",
    due=OVER,
    since="t.closed_at",
    status="t.state",
    size=SIZE,
    order="t.closed_at",
    spared=(
        Spared("Closed before its queue has come past its message", AHEAD),
        Spared("A bulk operation that is planned or under way has it before it", WANTED),
    ),
    kept=(
        Spared("Open: never removed, however old, expired or not", OPEN_ONES),
        Spared(
            f"Closed within the retention of its queue, or within the last {LEAST_DAYS} days",
            f"{CLOSED} AND NOT ({OVER})",
        ),
    ),
    along=(("integration_errorattempt", "error_id"),),
    kept_apart=(("integration_errorchange", "error_id", decisions.KEEP),),
)
