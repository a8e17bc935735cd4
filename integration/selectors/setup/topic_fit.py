"""A topic as the broker describes it, and what of it does not fit a queue that shall read it."""

from dataclasses import dataclass
from typing import Final

from integration.durations import rough, written
from integration.envelope import DEFAULT
from integration.kafka import admin
from integration.kafka.admin import TopicDescription
from integration.models import Queue
from integration.selectors.setup.retry_line import retry_line

WEEK_SECONDS: Final = 604_800


@dataclass(frozen=True, slots=True)
class TopicFit:
    """The facts of a topic, as pairs of a title and a text, and what a person should know of it."""

    facts: tuple[tuple[str, str], ...]
    warnings: tuple[str, ...]


def topic_fit(queue: Queue) -> TopicFit:
    """Ask the broker about the queue's topic; nothing of the queue has to be stored.

    Raises TopicUnknownError, BrokerUnreachableError, ProviderUnusableError.
    """
    topic = admin.describe(queue.provider, queue.topic)
    return TopicFit(_facts(topic), (*_warnings(queue, topic), *admin.remarks(topic)))


def _facts(topic: TopicDescription) -> tuple[tuple[str, str], ...]:
    low, high = topic.facts.low, topic.facts.high
    count = sum(high[p] - low[p] for p in low)
    ends = ", ".join(f"{p}: {low[p]:,} to {high[p]:,}" for p in sorted(low)[:8])
    more = f" and {len(low) - 8} more" if len(low) > 8 else ""
    may_write = {True: "yes", False: "no", None: "the cluster does not tell"}[topic.may_write]
    return (
        ("Messages", f"{count:,} at most"),
        ("Partitions", f"{topic.partitions:,}"),
        ("Begin to end", f"{ends}{more}"),
        ("Replication", f"{topic.replication}"),
        ("min.insync.replicas", f"{topic.min_insync_replicas}"),
        ("retention.ms", _time(topic.retention_ms)),
        ("retention.bytes", _limit(topic.retention_bytes)),
        ("cleanup.policy", _policy(topic)),
        ("max.message.bytes", f"{topic.max_message_bytes:,}"),
        ("We may write", may_write),
    )


def _time(milliseconds: int | None) -> str:
    if milliseconds is None:
        return "-1: without limit"
    return f"{milliseconds:,} ({rough(milliseconds / 1_000)})"


def _limit(count: int | None) -> str:
    return "-1: without limit" if count is None else f"{count:,}"


def _policy(topic: TopicDescription) -> str:
    words = {"compact": topic.is_compacted, "delete": topic.deletes_old}
    return ",".join(word for word, is_on in words.items() if is_on) or "none"


def _warnings(queue: Queue, topic: TopicDescription) -> list[str]:
    words = []
    if topic.deletes_old and topic.retention_ms is not None:
        words += _short_retention(queue, topic.retention_ms / 1_000)
    if topic.max_message_bytes > DEFAULT.max_bytes:
        words.append(
            f"{topic.name} takes messages of up to {topic.max_message_bytes:,} bytes; those above "
            f"{DEFAULT.max_bytes:,} are held, because the engine does not read them."
        )
    if queue.is_error_queue and topic.facts.low != topic.facts.high:
        words.append(f"{topic.name} is not empty: each foreign record in it is held for a person.")
    return words


def _short_retention(queue: Queue, kept_seconds: float) -> list[str]:
    words = []
    time = rough(kept_seconds)
    if kept_seconds < WEEK_SECONDS:
        words.append(
            f"{queue.topic} keeps its messages for {time} only, less than 7 d: if the queue stands "
            "still longer (a weekend with nobody there), unread messages expire and a gap is "
            "reported."
        )
    takes = retry_line(queue.retry_policy()).seconds
    if takes is None:
        words.append(
            f"Retries without end outlive every retention: what waits behind such a message in "
            f"{queue.topic} expires after {time}."
        )
    elif takes > kept_seconds:
        words.append(
            f"The retries of one message can take {written(takes)}, longer than {queue.topic} "
            f"keeps its messages ({time}): the failing message is safe in its row, what waits "
            "behind it in Kafka is not."
        )
    return words
