"""The rule for calls of endpoints: as long as tracking, and as long as a run may ask for them."""

from typing import Final

from crontasks.cleanup.rules import Rule, Spared, older_than

# Beyond the position the row is what tells that a message was delivered: it must not go before.
PASSED: Final = """NOT EXISTS (SELECT 1 FROM integration_queuepartition p
    WHERE p.queue_id = t.queue_id AND p.partition = t.partition
      AND p.topic_uuid = t.topic_uuid AND t."offset" >= p.next_offset)"""
OVER: Final = f"""t.state IN ('DELIVERED', 'FAILED') AND {PASSED}
    AND {older_than("t.ended_at", "tracking_days")}"""

CALLS: Final = Rule(
    name="deliveries",
    title="Calls of endpoints",
    what="What endpoints answered to each call.",
    source="integration_delivery t",
    due=OVER,
    since="t.ended_at",
    status="t.state",
    days="tracking_days",
    kept=(
        Spared(
            "Under way, or nobody knows whether it arrived: never removed",
            "t.state NOT IN ('DELIVERED', 'FAILED')",
        ),
        Spared(
            "Younger, or beyond the position of its queue",
            f"t.state IN ('DELIVERED', 'FAILED') AND NOT ({OVER})",
        ),
    ),
)
