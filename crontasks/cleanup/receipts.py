"""The rule for receipts of the HTTP API: as long as their queue keeps its failures."""

from typing import Final

from crontasks.cleanup.rules import Rule, Spared

LEAST_DAYS: Final = 7
OVER: Final = f"""t.received_at < {{at}} - interval '{LEAST_DAYS} days'
    AND t.received_at < {{at}} - make_interval(secs => coalesce(q.retention_seconds, 0))"""

RECEIPTS: Final = Rule(
    name="receipts",
    title="Receipts of the HTTP API",
    what="What was answered to posts, once the retention of their queue is over. A sender that "
    "repeats a post later than that has it accepted again.",
    keeps=f"the queue's retention, at least {LEAST_DAYS} days",
    source="integration_receipt t LEFT JOIN integration_queue q ON q.id = t.queue_id",
    due=OVER,
    since="t.received_at",
    order="t.received_at",
    kept=(Spared("Within the retention of its queue", f"NOT ({OVER})"),),
)
