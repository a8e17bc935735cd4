"""The words of the queue's form: its parts, and beside each field what it is and what it does.

What is particular about outbound queues is in `outbound`.
"""

from collections.abc import Mapping
from typing import Final

from console.forms.setup_form import Part, names_in
from integration.models import Queue
from integration.policy.retry import Backoff

RETRY: Final = "part-retry"
NEW: Final = "create"
PRESENT: Final = "adopt"
TOPIC_FROM: Final = (
    (NEW, "Create the topic now"),
    (PRESENT, "Adopt a topic that is there already"),
)

# Each part has an id, so that its effect can be shown anew when one of its fields changes.
PARTS: Final[Mapping[str, Part]] = {
    "part-queue": ("Queue", "", ("name", "description", "direction", "system")),
    "part-topic": (
        "Topic",
        "",
        ("provider", "topic_from", "topic", "kind", "partitions", "retention_seconds"),
    ),
    "part-start": (
        "Where reading begins",
        (
            "Decided once, when the queue is made; afterwards the stored position is the "
            "truth. There is no default for a topic that is there already: look what each "
            "choice reads and skips."
        ),
        ("start_from", "start_time", "start_group"),
    ),
    "part-messages": ("Messages", "", ("default_service", "dedupe", "ordering")),
    RETRY: (
        "Retries",
        (
            "What happens to a message that fails for a reason that may pass: a lock, an "
            "unknown exception, something it refers to that is not there yet. What can never "
            "succeed is held at once, and an outage spends no retry."
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
        "Limits: expired messages, failures, crashes",
        "",
        ("on_head_expired", "on_gap", "max_open_errors", "failure_threshold", "crash_limit"),
    ),
    "part-pace": (
        "Pace: batches, runs, handler calls",
        "",
        ("batch_size", "stay_seconds", "handler_timeout_seconds"),
    ),
    "part-tracking": ("Tracking", "", ("tracks",)),
}
# What is asked of a queue and no column of it.
BESIDE: Final = frozenset({"topic_from", "partitions", "create_error_queue", "error_queue_strict"})
MODEL_FIELDS: Final = [
    *(name for name in names_in(PARTS.values()) if name not in BESIDE),
    "endpoint",
    "concurrency",
]
# What most queues leave as it is; folded away unless something in it has to be corrected.
FOLDED: Final = ("part-limits", "part-pace")
EMPTY: Final = {
    "provider": "Choose…",
    "system": "None",
    "default_service": "None",
    "error_queue": "None: the error table alone keeps what is given up",
}
STARTS: Final = ("start_from", "start_time", "start_group")
ONLY_NEW: Final = ("topic_from", "partitions", *STARTS)

BACKOFFS: Final = (
    (Backoff.CONSTANT.value, "Always the first pause"),
    (Backoff.LINEAR.value, "Longer by the first pause each time"),
    (Backoff.EXPONENTIAL.value, "Multiplied by the factor each time"),
    (Backoff.LIST.value, "As listed below; the last one repeats"),
)
DIRECTIONS: Final = (
    (Queue.Direction.INBOUND.value, "Inbound: the partner writes, we read and apply"),
    (Queue.Direction.OUTBOUND.value, "Outbound: our handlers publish, the partner gets it"),
)

LABELS: Final = {
    "system": "External system",
    "topic_from": "The topic",
    "kind": "When a message fails",
    "retention_seconds": "Retention",
    "start_from": "Start at",
    "start_time": "Since (UTC)",
    "start_group": "Consumer group",
    "dedupe": "Drop repeats",
    "ordering": "Order within a key",
    "endpoint": "Endpoint",
    "concurrency": "Concurrency",
    "max_retries": "Retries",
    "unlimited_retries": "Without end",
    "backoff": "The pauses",
    "retry_delay_seconds": "First pause",
    "retry_factor": "Factor",
    "retry_delays_seconds": "Listed pauses",
    "retry_cap_seconds": "Longest pause",
    "retry_jitter": "Jitter",
    "retry_total_seconds": "Time limit",
    "carrier": "What reminds of a due retry",
    "create_error_queue": "Create an error queue with its own topic",
    "error_queue_strict": "… in strict order",
    "is_error_queue": "This is an error queue",
    "strict_order": "Strict order",
    "on_head_expired": "When the message it waits for expires",
    "on_gap": "When messages expired unread",
    "max_open_errors": "Most open failures",
    "failure_threshold": "Failure threshold",
    "crash_limit": "Crashes allowed",
    "batch_size": "Batch size",
    "stay_seconds": "Stay attached",
    "handler_timeout_seconds": "Time for one handler call",
    "tracks": "Track its messages",
}

# Of a stored queue; its topic is made.
RETENTION_KEPT: Final = (
    "How long closed failures are kept here (at least 7 d). Where the topic has a time limit, it "
    "has to be the same; the retention sync follows a change of the topic by itself."
)
DIRECTION_STAYS: Final = "The direction of a queue stays: add a queue for the other direction."
HELPS: Final = {
    "name": "Letters, digits, - and _. It names the queue everywhere: in addresses, in publish(), "
    "in the log.",
    "description": "What flows here, in a few words; people see it on the overview.",
    "direction": "Decides who reads the topic.",
    "system": "The partner. Switching the partner off stops the queue without spending retries, "
    "and people may be limited to some partners.",
    "provider": "The Kafka cluster the topic is on.",
    "topic_from": "Nothing in Kafka is ever changed or deleted by adopting a topic.",
    "topic": "Its exact name on the cluster: letters, digits, dot, - and _.",
    "kind": "Sequential keeps the order: one partition, and nothing passes a message that failed. "
    "Continuous keeps the pace: the failed one waits in its row, the others go on; an older "
    "message that comes late never overwrites newer data.",
    "partitions": "Of the topic to be created. One run takes all that are free, one batch after "
    "another, so more of them do not make this queue faster. Sequential needs exactly 1. "
    "Replication is the broker's own.",
    "retention_seconds": "How long the created topic keeps its messages, and how long closed "
    "failures are kept here (at least 7 d). Where an adopted topic has a time limit of its own, "
    "that one is taken.",
    "start_from": "Left out for a topic that is created now: it is empty, and read from its "
    "beginning.",
    "start_time": "For “Messages written since a time”.",
    "start_group": "For “Where a named consumer group stands”: its committed offsets are taken "
    "over once. Stop that group first.",
    "default_service": "Takes messages that name no INTERFACE themselves. Empty: such messages "
    "are held.",
    "dedupe": "A message with an id and content that were applied before is dropped; the same id "
    "with other content is held. Costs one look-up a message. Ids are remembered for as long as "
    "the topic keeps the message, and at least for the days that the history cleanup says: 30.",
    "ordering": "It has no effect on inbound queues: none keeps the order within a key when a "
    "message fails. Choose the first; where the order counts, use a sequential queue.",
    "max_retries": "Tries after the first. 0 = the first failure is final.",
    "unlimited_retries": "Never give a message up. A sequential queue then stands still until a "
    "person acts, and nobody is told that it was given up.",
    "retry_delay_seconds": "Between the first failure and the first retry, such as 10 s or 5 min.",
    "retry_factor": "For “multiplied”: 2 doubles the pause each time.",
    "retry_delays_seconds": "For “as listed”: 10 s, 1 min, 5 min.",
    "retry_cap_seconds": "However the pauses grow, none is longer.",
    "retry_jitter": "Share added at random: 0.2 = up to a fifth longer, 0 = exact. It never makes "
    "a pause shorter.",
    "retry_total_seconds": "No retry later than this after the first failure. Empty = no limit.",
    "carrier": "Continuous queues only. A retry marker needs the right to write to the topic; on a "
    "compacted topic only the row can be used.",
    "error_queue": "What was given up is copied to this queue's topic, where others can read it. "
    "Empty: it is kept in the error table alone.",
    "create_error_queue": "Makes NAME-errors on TOPIC.errors, inbound and sequential, with a "
    "schedule of its own.",
    "error_queue_strict": "For the one to be created: a held message stops the ones behind it.",
    "is_error_queue": "Its records are failures of other queues, kept for people. Sequential only.",
    "strict_order": "Error queues only: one held message stops the ones behind it. "
    "Otherwise each can be released on its own.",
    "on_head_expired": "Sequential queues: Kafka no longer has the held message, but its row does.",
    "on_gap": "Nothing is skipped silently either way: the gap is recorded and told.",
    "max_open_errors": "With more open failures than this the queue stops reading and "
    "says why, instead of filling the table overnight.",
    "failure_threshold": "So many failures of one cause in a row, without a success between, stop "
    "the queue. 0 = never.",
    "crash_limit": "A message is held once workers have died this many times while working on it "
    "alone.",
    "batch_size": "Messages in one transaction. Larger is faster, and a failure replays more.",
    "stay_seconds": "How long a run waits for new messages before it frees its worker.",
    "handler_timeout_seconds": "A call that takes longer counts as hanging; its process is ended.",
    "tracks": "On: what became of each message is written down, and people find it under Messages. "
    "Off: only failures are kept; the queue is a little faster.",
}
