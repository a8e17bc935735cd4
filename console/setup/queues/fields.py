"""The words of the queue's form: its parts, and beside each field what it is and what it does.

What is particular about outbound queues is in `outbound`.
"""

from collections.abc import Mapping
from typing import Final

from console.forms.setup_form import ONLY_AT_JMS, ONLY_AT_KAFKA, Part, names_in
from integration.models import Queue
from integration.policy.retry import Backoff

RETRY: Final = "part-retry"
NEW: Final = "create"
PRESENT: Final = "adopt"
TOPIC_FROM: Final = (
    (NEW, "Create the topic now"),
    (PRESENT, "Adopt an existing topic"),
)

PACE: Final = ("batch_size", "stay_seconds", "handler_timeout_seconds")
# Each part has an id, so that its effect can be shown anew when one of its fields changes.
PARTS: Final[Mapping[str, Part]] = {
    "part-queue": ("Queue", "", ("name", "description", "direction", "system")),
    "part-topic": (
        "Topic",
        "",
        (
            *("provider", "topic_from", "topic", "subscription", "selector", "kind"),
            *("partitions", "retention_seconds"),
        ),
    ),
    "part-start": (
        "Where reading begins",
        (
            "Chosen once, when the queue is created; afterwards the stored position "
            "counts. An existing topic has no default: check what each choice reads and "
            "skips."
        ),
        ("start_from", "start_time", "start_group"),
    ),
    "part-messages": (
        "Messages",
        "",
        (
            *("default_service", "dedupe", "ordering", "order_path", "retry_wrapper"),
            *("two_phase", "second_database"),
        ),
    ),
    RETRY: (
        "Retries",
        (
            "For messages that fail for a reason that may pass: a lock, an unknown "
            "exception, a reference to something that does not exist yet. A message that can "
            "never succeed is put on hold at once, and an outage spends no retry. An enterprise "
            "service, or its handler, may have retries of its own."
        ),
        (
            "max_retries",
            "unlimited_retries",
            "backoff",
            "retry_delay_seconds",
            "retry_factor",
            "retry_delays_seconds",
            "retry_cap_seconds",
            "retry_jitter",
            "retry_total_seconds",
            "carrier",
        ),
    ),
    "part-failures": (
        "Failures",
        "",
        (
            "error_queue",
            "create_error_queue",
            "error_queue_strict",
            "is_error_queue",
            "strict_order",
        ),
    ),
    "part-limits": (
        "Limits: expiring messages, failures, crashes",
        "",
        (
            "rescue",
            "rescue_limit_mb",
            "on_head_expired",
            "on_gap",
            "max_open_errors",
            "failure_threshold",
            "max_parked",
            "crash_limit",
        ),
    ),
    "part-pace": (
        "Pace: batches, runs, handler calls",
        "",
        ("workers", "concurrency", *PACE),
    ),
    "part-group": (
        "Consumer group: for clusters that demand one",
        "",
        ("group_protocol", "group_id"),
    ),
    "part-tracking": ("Tracking", "", ("tracks",)),
}
# What is asked of a queue and no column of it.
BESIDE: Final = frozenset({"topic_from", "partitions", "create_error_queue", "error_queue_strict"})
MODEL_FIELDS: Final = [
    *(name for name in names_in(PARTS.values()) if name not in BESIDE),
    "endpoint",
]
# What most queues leave as it is; folded away unless something in it has to be corrected.
FOLDED: Final = ("part-limits", "part-pace", "part-group")
EMPTY: Final = {
    "provider": "Choose…",
    "system": "None",
    "default_service": "None",
    "error_queue": "None: failures are kept in the error table only",
}
STARTS: Final = ("start_from", "start_time", "start_group")
ONLY_NEW: Final = ("topic_from", "partitions", *STARTS)
# What is refused at the other kind of provider, and is put back to its default there.
REFUSED_AT_JMS: Final = (
    *("start_time", "start_group", "is_error_queue", "strict_order"),
    *("workers", "concurrency", "group_protocol", "group_id"),
)
JMS_ALONE: Final = ("subscription", "selector")
KAFKA_ALONE: Final = (
    *("topic_from", "partitions", "start_from", "carrier"),
    *("create_error_queue", "error_queue_strict"),
    *("rescue", "rescue_limit_mb", "on_head_expired", "on_gap"),
    *REFUSED_AT_JMS,
)
MARKS: Final = {
    **dict.fromkeys(KAFKA_ALONE, ONLY_AT_KAFKA),
    **dict.fromkeys(JMS_ALONE, ONLY_AT_JMS),
}

BACKOFFS: Final = (
    (Backoff.CONSTANT.value, "All equal to the first pause"),
    (Backoff.LINEAR.value, "Increased by the first pause each time"),
    (Backoff.EXPONENTIAL.value, "Multiplied by the factor each time"),
    (Backoff.LIST.value, "As listed; the last one repeats"),
)
DIRECTIONS: Final = (
    (Queue.Direction.INBOUND.value, "Inbound: the partner writes, we read and apply"),
    (Queue.Direction.OUTBOUND.value, "Outbound: our handlers publish, the partner gets it"),
)

LABELS: Final = {
    "system": "External system",
    "topic_from": "The topic",
    "topic": "Topic or JMS address",
    "subscription": "Durable subscription",
    "selector": "Selector",
    "kind": "If a message fails",
    "retention_seconds": "Retention",
    "start_from": "Start at",
    "start_time": "Since (UTC)",
    "start_group": "Consumer group",
    "dedupe": "Drop repeats",
    "ordering": "Order within a key",
    "order_path": "Path of the key",
    "max_parked": "Most parked of one key",
    "retry_wrapper": "Retry wrapper",
    "two_phase": "Two-phase commit",
    "second_database": "Second database",
    "endpoint": "Endpoint",
    "concurrency": "Concurrency",
    "max_retries": "Retries",
    "unlimited_retries": "Retry without end",
    "backoff": "Pauses between retries",
    "retry_delay_seconds": "First pause",
    "retry_factor": "Factor",
    "retry_delays_seconds": "Listed pauses",
    "retry_cap_seconds": "Longest pause",
    "retry_jitter": "Jitter",
    "retry_total_seconds": "Time limit",
    "carrier": "What brings a due retry back",
    "create_error_queue": "Create an error queue with its own topic",
    "error_queue_strict": "… in strict order",
    "is_error_queue": "This is an error queue",
    "strict_order": "Strict order",
    "rescue": "Rescue what is about to expire",
    "rescue_limit_mb": "Rescue limit, in MiB",
    "on_head_expired": "If the message it waits for expires",
    "on_gap": "If messages expired unread",
    "max_open_errors": "Most open failures",
    "failure_threshold": "Failure threshold",
    "crash_limit": "Crashes allowed",
    "workers": "Workers",
    "group_protocol": "Join a consumer group",
    "group_id": "Name of the group",
    "batch_size": "Batch size",
    "stay_seconds": "Stay attached",
    "handler_timeout_seconds": "Time for one handler call",
    "tracks": "Track its messages",
}

# Of a stored queue; its topic is made.
RETENTION_KEPT: Final = (
    "How long closed failures are kept here (at least 7 d). If the topic has a time limit, it "
    "must be the same; the retention sync follows a change of the topic by itself."
)
DIRECTION_STAYS: Final = "The direction cannot change: add another queue for the other direction."
HELPS: Final = {
    "name": "Letters, digits, - and _. The queue has this name everywhere: in addresses, in "
    "publish(), in the log.",
    "description": "What flows here, in a few words; people see it on the overview.",
    "direction": "Determines who reads the topic.",
    "system": "The partner. Switching the partner off stops the queue without spending retries, "
    "and people may be limited to some partners.",
    "provider": "The Kafka cluster the topic is on, or the JMS broker to read from.",
    "topic_from": "Adopting a topic never changes or deletes anything in Kafka.",
    "topic": "Kafka: the topic's exact name on the cluster: letters, digits, dot, - and _. JMS "
    "broker: the exact name of the queue or topic to read.",
    "subscription": "For a JMS topic: the name of the durable subscription to read it by; the "
    "broker keeps what comes while nobody reads. Empty: a JMS queue.",
    "selector": "Only messages that meet it are read, for example JMSType = 'order' AND site = "
    "'BEDFORD'. The others stay at the broker. Empty: all.",
    "kind": "Sequential keeps the order: one partition, and nothing passes a message that failed. "
    "Continuous keeps going: the failed message waits, the others continue; an older message "
    "that comes late never overwrites newer data.",
    "partitions": "For the topic to be created. At most so many workers can share a continuous "
    "queue. Sequential needs exactly 1. Replication is the broker's default.",
    "retention_seconds": "How long the created topic keeps its messages, and how long closed "
    "failures are kept here (at least 7 d). If an adopted topic has its own time limit, that "
    "one is used. Of a JMS broker's queue: how long closed failures are kept.",
    "start_from": "Not needed for a topic that is created now: it is empty, and read from its "
    "beginning.",
    "start_time": "For “Messages written since a time”.",
    "start_group": "For “Where a named consumer group stands”: its committed offsets are copied "
    "once. Stop that group first.",
    "default_service": "Processes messages that name no INTERFACE. Empty: such messages are put "
    "on hold. The HTTP API puts posts for this service here. The one inbound queue of a system "
    "that has none takes posts for every service that is the default of no other.",
    "dedupe": "A message with the same id and content as one applied before is dropped; the same "
    "id with other content is put on hold. Costs one look-up per message. Ids are remembered as "
    "long as the topic keeps the message, and at least as long as the history cleanup says: 30 "
    "days.",
    "ordering": "Continuous only. Within a key: while a message of a key has failed, later ones of "
    "that key are parked behind it and follow in order once it is resolved or deleted. Other keys, "
    "and messages without a key, never wait.",
    "order_path": "Optional: JSONPath such as $.assetnum, or XPath such as /ASSET/ASSETNUM, where "
    "the document says what it is about; the topic needs to have one partition then. A "
    "message that cannot be read has no key then, and waits for none. Empty: the record's key.",
    "retry_wrapper": "On: its messages come as {“retryCount”: 0, “message”: …}; what is wrapped is "
    "the message, and a handler sees the count. A message without the wrapper is read as it is. "
    "Of an error queue: what is sent back is wrapped, with one more counted.",
    "two_phase": "On: what handlers publish is in Kafka as soon as their effects are in the "
    "database, and nothing of it goes through the outbox. Needs PostgreSQL's "
    "max_prepared_transactions, and a concurrency of 1. Each batch waits for Kafka: slower than "
    "the outbox.",
    "second_database": "For a two-phase commit: handlers write to this database as well, and both "
    "commit or neither does. It needs max_prepared_transactions, too.",
    "max_parked": "Where keys keep their order: with more messages of one key behind its first "
    "failure, the queue stops reading and shows why.",
    "max_retries": "Tries after the first. 0 = the first failure is final.",
    "unlimited_retries": "Never give up on what another try may help. A sequential queue then "
    "stops until a person acts.",
    "retry_delay_seconds": "Between the first failure and the first retry, such as 10 s or 5 min.",
    "retry_factor": "For “multiplied”: 2 doubles the pause each time.",
    "retry_delays_seconds": "For “as listed”: 10 s, 1 min, 5 min.",
    "retry_cap_seconds": "No pause grows beyond this.",
    "retry_jitter": "Random addition to each pause: 0.2 = up to a fifth longer, 0 = exact. It "
    "never shortens a pause.",
    "retry_total_seconds": "No retry later than this after the first failure, or the first one "
    "after a release. Empty = no limit.",
    "carrier": "Continuous queues only. A retry marker needs the right to write to the topic; with "
    "a compacted topic only the row works.",
    "error_queue": "Messages put on hold are copied to this queue's topic, where others can read "
    "them; one that stops a sequential queue is not. Empty: they are kept in the database only.",
    "create_error_queue": "Creates NAME-errors on TOPIC.errors, inbound and sequential, with its "
    "own schedule.",
    "error_queue_strict": "For the new error queue: a message on hold stops those behind it.",
    "is_error_queue": "Its records are failures of other queues, kept for people. Sequential only.",
    "strict_order": "Error queues only: one message on hold stops the ones behind it. "
    "Otherwise each can be released on its own.",
    "rescue": "On: while the queue is blocked, paused, switched off or late, messages that nobody "
    "has tried are copied into the database before the topic forgets them, and are read from there "
    "first. Off: they expire, and a gap is recorded.",
    "rescue_limit_mb": "The most of this queue that the database keeps at once. At the limit "
    "people are told, and the rest expires.",
    "on_head_expired": "Sequential queues: Kafka no longer has the message, but its failure does.",
    "on_gap": "Nothing is skipped silently: the gap is recorded and reported either way.",
    "max_open_errors": "With more open failures than this, the queue stops reading and "
    "shows why, instead of filling the table overnight.",
    "failure_threshold": "This many failures of the same cause in a row, without a success in "
    "between, stop the queue. 0 = never.",
    "crash_limit": "A message is put on hold once workers have died this many times while working "
    "on it alone.",
    "workers": "Continuous queues: how many runs may share the partitions when there is much to "
    "do, 1 to 64. They use worker slots that no other queue waits for. Empty: up to one for each "
    "partition.",
    "concurrency": "Continuous queues whose handlers wait for something: how many handler calls "
    "of one partition may be under way at once, 1 to 64. Messages of one key stay in order. Each "
    "needs a database session of its own, and handlers that may run in several threads.",
    "group_protocol": "Only where the cluster demands it. Runs then try what the group assigns to "
    "them; positions stay in the database. It costs: a run waits until it has joined, with the "
    "classic protocol and Kafka's defaults three seconds, and the partitions of a worker that was "
    "killed stand still until the group has forgotten it: for SLUICE_LEASE_SECONDS (classic) or, "
    "with Kafka's defaults, 45 s (consumer). All runs of the queue need the right to read the "
    "group.",
    "group_id": "Empty: the name of this deployment, a hyphen, and the queue's. Nobody else may "
    "be in it: whatever the group assigns to a stranger is not read here.",
    "batch_size": "Messages per transaction. Larger is faster, but a failure repeats more work.",
    "stay_seconds": "How long a run waits for new messages before it frees its worker.",
    "handler_timeout_seconds": "A call that takes longer counts as hung, and its process is ended.",
    "tracks": "On: the outcome of each message is recorded and can be found under Messages. "
    "Off: only failures are kept; the queue is a little faster.",
}
