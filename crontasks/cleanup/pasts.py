"""The rules of the history cleanup: what happened long ago and is needed by nobody."""

from typing import Final

from crontasks.cleanup.rules import Rule, Spared, older_than
from crontasks.cleanup.stages import BULK_RUNS, STAGES

# Who posted a message may ask for it as long as its key is kept: of a row that is gone the answer
# is that it was sent.
SENT: Final = f"""(t.state = 'PUBLISHED' AND {older_than("t.published_at", "outbox_days")})
    OR (t.state = 'CANCELLED' AND {older_than("t.created_at", "outbox_days")}
        AND (t.kind <> 'MESSAGE' OR coalesce({older_than("t.created_at", "keys_days")}, false)))"""
# A replay needs the numbers for as long as the topic keeps the records.
OUTLIVED: Final = """t.committed_at < {at} - make_interval(secs => q.retention_seconds)
    AND (p.low_watermark IS NULL OR t.to_offset < p.low_watermark
         OR t.topic_uuid <> p.topic_uuid)"""
# A rewind reads a record once more for as long as its topic has it, and its id says that it was
# applied. Of an older topic, offsets beyond the end of the new one say nothing.
FORGOTTEN: Final = f"""{older_than("t.seen_at", "ids_days")}
    AND t.seen_at < {{at}} - make_interval(secs => q.retention_seconds)
    AND NOT EXISTS (
        SELECT 1 FROM integration_queuepartition p
        WHERE p.queue_id = t.queue_id AND p.partition = t.partition
          AND t.offset >= p.low_watermark AND t.offset < p.high_watermark)"""
SURPLUS: Final = """t.state <> 'RUNNING' AND t.id NOT IN (
        SELECT newest.id FROM crontasks_croninstance i CROSS JOIN LATERAL (
            SELECT r.id FROM crontasks_cronrun r
            WHERE r.instance_id = i.id AND r.state <> 'RUNNING'
            ORDER BY r.started_at DESC, r.id DESC LIMIT i.keep_runs) newest)"""
# The messages of ended operations go in chunks of their own. Those of a planned one go with it, in
# one commit: until then it can be started.
OLD_MESSAGE: Final = f"""o.state IN ('DONE', 'CANCELLED')
    AND {older_than("coalesce(o.ended_at, o.created_at)", "operations_days")}"""
# Of the locked row alone: what is joined is not looked at again when somebody starts it meanwhile.
OLD_OPERATION: Final = f"""(t.state = 'PLANNED' AND t.created_at < {{at}} - interval '1 day')
    OR (t.state IN ('DONE', 'CANCELLED')
        AND {older_than("coalesce(t.ended_at, t.created_at)", "operations_days")})"""
# Tracking goes by the day, in one piece: a day that is partly old stays.
WHOLE_DAYS: Final = (
    "t.at < date_trunc('day', {at} - make_interval(days => %(tracking_days)s::int), 'UTC')"
)
# Beyond the position the row is what tells that a message was delivered: it must not go before.
PASSED: Final = """NOT EXISTS (SELECT 1 FROM integration_queuepartition p
    WHERE p.queue_id = t.queue_id AND p.partition = t.partition
      AND p.topic_uuid = t.topic_uuid AND t."offset" >= p.next_offset)"""
CALLED: Final = f"""t.state IN ('DELIVERED', 'FAILED') AND {PASSED}
    AND {older_than("t.ended_at", "tracking_days")}"""
LEAST_DAYS: Final = 7
# A receipt without a key is only asked what became of its messages.
UNKEYED: Final = "t.sender_id IS NULL"
ANSWERED: Final = f"""{UNKEYED} AND t.received_at < {{at}} - interval '{LEAST_DAYS} days'
    AND t.received_at < {{at}} - make_interval(secs => coalesce(q.retention_seconds, 0))"""
# A key lives by its own days, whatever became of its messages, their queue and their tracking.
KEYED: Final = "t.sender_id IS NOT NULL"
UNUSED: Final = f"{KEYED} AND {older_than('t.received_at', 'keys_days')}"
AUDIT: Final = "Kept forever unless days are set."


def _decisions(name: str, title: str, table: str, only: str = "") -> Rule:
    """Build the rule of one kind's audit, kept for ever unless the policy says days.

    `only` is a condition on the rows that it speaks of.
    """
    old = f"coalesce({older_than('t.at', 'decisions_days')}, false)"
    return Rule(
        name=name,
        title=title,
        what=f"{title}. {AUDIT}",
        source=f"{table} t",
        due=f"{only} AND {old}" if only else old,
        since="t.at",
        status="t.action",
        days="decisions_days",
        kept=(Spared("Younger, or kept forever", "true"),),
    )


RECEIPTS: Final = Rule(
    name="receipts",
    title="Receipts of the HTTP API",
    what="What was answered to posts without an idempotency key, once the retention of their queue "
    "is over.",
    keeps=f"the queue's retention, at least {LEAST_DAYS} days",
    source="integration_receipt t LEFT JOIN integration_queue q ON q.id = t.queue_id",
    due=ANSWERED,
    since="t.received_at",
    order="t.received_at",
    kept=(Spared("Within the retention of its queue", f"{UNKEYED} AND NOT ({ANSWERED})"),),
)
KEYS: Final = Rule(
    name="idempotency_keys",
    title="Idempotency keys",
    what="The senders' own ids of posts to the HTTP API, with what was answered. A sender that "
    "repeats a post later than that has it accepted again.",
    source="integration_receipt t",
    due=UNUSED,
    since="t.received_at",
    order="t.received_at",
    days="keys_days",
    kept=(Spared("A repeat is still answered", f"{KEYED} AND NOT ({UNUSED})"),),
)
ARRIVALS: Final = Rule(
    name="arrivals",
    title="Objects that have arrived",
    what="What handlers have said of arrived objects, for messages that fail for want of one at "
    "that moment.",
    keeps=f"{LEAST_DAYS} days",
    source="integration_arrivedobject t",
    due=f"t.arrived_at < {{at}} - interval '{LEAST_DAYS} days'",
    since="t.arrived_at",
    order="t.arrived_at",
    kept=(Spared(f"Within the last {LEAST_DAYS} days", "true"),),
)
HISTORY: Final = (
    Rule(
        name="outbox",
        title="Outgoing messages",
        what="Rows of the outbox that are in Kafka or were cancelled; messages that people gave up "
        "stay as long as idempotency keys, so that their senders are told.",
        source="integration_outboxrow t",
        due=SENT,
        since="coalesce(t.published_at, t.created_at)",
        status="t.state",
        days="outbox_days",
        kept=(
            Spared(
                "Waits, is being sent, or was refused: never removed",
                "t.state NOT IN ('PUBLISHED', 'CANCELLED')",
            ),
            Spared(
                "Sent or cancelled within the days, or given up while idempotency keys are kept",
                f"t.state IN ('PUBLISHED', 'CANCELLED') AND NOT ({SENT})",
            ),
        ),
    ),
    Rule(
        name="tracking",
        title="Tracking",
        what="What became of every message, by whole days.",
        source="integration_messagetrack t",
        due=WHOLE_DAYS,
        since="t.at",
        status="t.ended",
        days="tracking_days",
        kept=(Spared("Younger, or of a day that is not over", f"NOT ({WHOLE_DAYS})"),),
    ),
    Rule(
        name="batches",
        title="Arrival numbers of batches",
        what="Which numbers a range of offsets got, once the topic has dropped its records.",
        keeps="as long as the topic keeps its records",
        source="integration_batchlog t JOIN integration_queuepartition p ON p.id = t.partition_id "
        "JOIN integration_queue q ON q.id = p.queue_id",
        due=OUTLIVED,
        since="t.committed_at",
        key="t.number",
        order="t.number",
        kept=(Spared("A replay may still need it", f"NOT ({OUTLIVED})"),),
    ),
    Rule(
        name="seen_ids",
        title="Ids of applied messages",
        what="What a queue that drops repeats remembers of each message, once its topic has "
        "dropped the record and the queue's retention is over. A repeat that comes later than "
        "that is applied again.",
        source="integration_seenmessage t JOIN integration_queue q ON q.id = t.queue_id",
        due=FORGOTTEN,
        since="t.seen_at",
        days="ids_days",
        kept=(Spared("Younger, or its record is still in the topic", f"NOT ({FORGOTTEN})"),),
    ),
    Rule(
        name="deliveries",
        title="Calls of endpoints",
        what="What endpoints answered to each call.",
        source="integration_delivery t",
        due=CALLED,
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
                f"t.state IN ('DELIVERED', 'FAILED') AND NOT ({CALLED})",
            ),
        ),
    ),
    RECEIPTS,
    KEYS,
    Rule(
        name="runs",
        title="Runs of cron tasks",
        what="Runs beyond the number that their schedule keeps.",
        keeps="the number of each schedule",
        source="crontasks_cronrun t",
        due=SURPLUS,
        since="t.started_at",
        status="t.state",
        kept=(
            Spared("Running", "t.state = 'RUNNING'"),
            Spared("Among the runs to keep", f"t.state <> 'RUNNING' AND NOT ({SURPLUS})"),
        ),
    ),
    Rule(
        name="notices",
        title="Notices",
        what="Notices that are over.",
        source="crontasks_notice t",
        due=older_than("t.closed_at", "notices_days"),
        since="t.closed_at",
        status="t.kind",
        days="notices_days",
        along=(("crontasks_noticedelivery", "notice_id"),),
        kept=(Spared("Not over: never removed", "t.closed_at IS NULL"),),
    ),
    Rule(
        name="heartbeats",
        title="Heartbeats",
        what="Signs of life of processes that are gone for a day.",
        keeps="1 day",
        source="crontasks_heartbeat t",
        due="t.seen_at < {at} - interval '1 day'",
        since="t.seen_at",
        status="t.kind",
    ),
    Rule(
        name="operation_messages",
        title="Messages of bulk operations",
        what="What ended operations did to each message.",
        source="integration_operationitem t JOIN integration_operation o ON o.id = t.operation_id",
        due=OLD_MESSAGE,
        since="o.created_at",
        status="o.state",
        days="operations_days",
        kept=(
            Spared(
                "Its operation is young or under way",
                f"o.state <> 'PLANNED' AND NOT ({OLD_MESSAGE})",
            ),
            Spared("Chosen by a planned operation: goes with it", "o.state = 'PLANNED'"),
        ),
    ),
    Rule(
        name="operations",
        title="Bulk operations",
        what="Ended operations, and planned ones that nobody started within a day, with the "
        "messages that these had chosen.",
        source="integration_operation t",
        due=OLD_OPERATION,
        since="t.created_at",
        status="t.state",
        order="t.created_at",
        days="operations_days",
        along=(("integration_operationitem", "operation_id"),),
        loosened=(("integration_operation", "retry_of_id"),),
        kept=(Spared("Young or under way", f"NOT ({OLD_OPERATION})"),),
    ),
    ARRIVALS,
    STAGES,
    BULK_RUNS,
    _decisions("queue_decisions", "Decisions about queues", "integration_queuechange"),
    _decisions(
        "failure_decisions",
        "Decisions about failures that were removed",
        "integration_errorchange",
        "t.error_id IS NULL",
    ),
    _decisions("outbox_decisions", "Decisions about outgoing messages", "integration_outboxchange"),
    _decisions(
        "configuration",
        "Changes of the configuration, and accesses",
        "integration_configurationchange",
    ),
)
