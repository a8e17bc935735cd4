"""The headers in which other frameworks tell of a record that they gave up.

The names are those of the frameworks' sources: Spring's are the constants of
`org.springframework.kafka.support.KafkaHeaders`. DeadLetterPublishingRecoverer writes `DLT_…`
(`kafka_dlt-original-topic`); for `@RetryableTopic` DeadLetterPublishingRecovererFactory (package
`retrytopic`) has it write the same without DLT: `ORIGINAL_…` (`kafka_original-topic`),
`EXCEPTION_…` and `KEY_EXCEPTION_…`, beside RetryTopicHeaders (`retry_topic-attempts`).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

Headers = Sequence[tuple[str, bytes | None]]

SPRING: Final = "Spring Kafka"
CONNECT: Final = "Kafka Connect"
# With these an application tells of a failure; sent back, a record has none of them. The last is of
# Spring's retry topics: with it, a record would be given up at once again.
TELLING: Final = ("kafka_dlt-", "__connect.errors.", "retry_topic-")
_DLT: Final = "kafka_dlt-"
# What retry topics tell. Others may use names like these: they are no telling without the former.
_BY_RETRY_TOPICS: Final = ("kafka_original-topic", "retry_topic-")
_RETRY_TELLING: Final = ("kafka_original-", "kafka_exception-", "kafka_key-exception-")
# What a failure keeps of a letter may be from any of these.
TOPIC_HEADERS: Final = (
    "kafka_dlt-original-topic",
    "kafka_original-topic",
    "__connect.errors.topic",
)
CAUSE_HEADERS: Final = (
    "kafka_dlt-exception-cause-fqcn",
    "kafka_dlt-exception-fqcn",
    "kafka_dlt-key-exception-fqcn",
    "kafka_exception-cause-fqcn",
    "kafka_exception-fqcn",
    "kafka_key-exception-fqcn",
    "__connect.errors.exception.class.name",
)
PLACE_HEADERS: Final = (
    "kafka_dlt-original-partition",
    "kafka_dlt-original-offset",
    "kafka_original-partition",
    "kafka_original-offset",
    "__connect.errors.partition",
    "__connect.errors.offset",
)
MOST_TOPIC: Final = 249
MOST_NAME: Final = 200
MOST_MESSAGE: Final = 2_000
MOST_TRACE: Final = 8_000
_INT_BYTES: Final = 4
_LONG_BYTES: Final = 8
# Kafka numbers partitions with four bytes, and so does the column that keeps the origin.
_MOST_PARTITION: Final = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """What is told of a failed record: where it came from, and why it was given up.

    What is not told is empty or None. `reader` is the consumer group, or the connector.
    """

    framework: str
    topic: str
    partition: int | None
    offset: int | None
    timestamp_ms: int | None
    reader: str
    cause: str
    message: str
    trace: str

    @property
    def short_cause(self) -> str:
        """The exception's class without its package."""
        return self.cause.rpartition(".")[2]


def dead_letter_of(headers: Headers | None) -> DeadLetter | None:
    """Return what the headers tell, or None when they are no framework's that is known.

    Of repeated headers the last one counts: it is the last failure's. Never raises.
    """
    told = {name: value for name, value in headers or () if value is not None}
    return _of_spring(_as_dlt(told)) or _of_connect(told)


def without_telling(headers: Headers | None) -> Iterator[tuple[str, bytes | None]]:
    """Return the headers that the record had before anybody told of a failure."""
    pairs = headers or ()
    of_retries = any(name.startswith(_BY_RETRY_TOPICS) for name, _ in pairs)
    telling = TELLING + _RETRY_TELLING if of_retries else TELLING
    return (pair for pair in pairs if not pair[0].startswith(telling))


def _as_dlt(told: Mapping[str, bytes]) -> Mapping[str, bytes]:
    """The same, with what retry topics tell under the names of the others, which come first."""
    if not any(name.startswith(_BY_RETRY_TOPICS) for name in told):
        return told
    by_retries = {
        _DLT + name.removeprefix("kafka_"): value
        for name, value in told.items()
        if name.startswith(_RETRY_TELLING)
    }
    return {**by_retries, **told}


def _of_spring(told: Mapping[str, bytes]) -> DeadLetter | None:
    """Read what DeadLetterPublishingRecoverer wrote: texts, and numbers as big-endian bytes."""
    topic = _text(told, "kafka_dlt-original-topic", MOST_TOPIC)
    cause = _text(told, "kafka_dlt-exception-cause-fqcn", MOST_NAME)
    # The exception itself is mostly the listener's wrapper around its cause.
    cause = cause or _text(told, "kafka_dlt-exception-fqcn", MOST_NAME)
    cause = cause or _text(told, "kafka_dlt-key-exception-fqcn", MOST_NAME)
    if not topic and not cause:
        return None
    return DeadLetter(
        framework=SPRING,
        topic=topic,
        partition=_partition(told, "kafka_dlt-original-partition", _INT_BYTES),
        offset=_number(told, "kafka_dlt-original-offset", _LONG_BYTES),
        timestamp_ms=_number(told, "kafka_dlt-original-timestamp", _LONG_BYTES),
        reader=_text(told, "kafka_dlt-original-consumer-group", MOST_NAME),
        cause=cause,
        message=_text(told, "kafka_dlt-exception-message", MOST_MESSAGE)
        or _text(told, "kafka_dlt-key-exception-message", MOST_MESSAGE),
        trace=_text(told, "kafka_dlt-exception-stacktrace", MOST_TRACE)
        or _text(told, "kafka_dlt-key-exception-stacktrace", MOST_TRACE),
    )


def _of_connect(told: Mapping[str, bytes]) -> DeadLetter | None:
    """Read what the reporter of a sink connector wrote: all of it is text."""
    topic = _text(told, "__connect.errors.topic", MOST_TOPIC)
    cause = _text(told, "__connect.errors.exception.class.name", MOST_NAME)
    if not topic and not cause:
        return None
    return DeadLetter(
        framework=CONNECT,
        topic=topic,
        partition=_partition(told, "__connect.errors.partition", 0),
        offset=_number(told, "__connect.errors.offset", 0),
        timestamp_ms=None,
        reader=_text(told, "__connect.errors.connector.name", MOST_NAME),
        cause=cause,
        message=_text(told, "__connect.errors.exception.message", MOST_MESSAGE),
        trace=_text(told, "__connect.errors.exception.stacktrace", MOST_TRACE),
    )


def _text(told: Mapping[str, bytes], name: str, most: int) -> str:
    value = told.get(name, b"")
    return value[: 4 * most].decode("utf-8", "replace").replace("\0", "\ufffd")[:most]


def _partition(told: Mapping[str, bytes], name: str, size: int) -> int | None:
    """Return the number of a partition, None for what no partition has."""
    number = _number(told, name, size)
    return None if number is None or number > _MOST_PARTITION else number


def _number(told: Mapping[str, bytes], name: str, size: int) -> int | None:
    """Return a number of so many bytes, or of digits; None for what is neither, or below zero."""
    value = told.get(name, b"")
    if size and len(value) == size:
        number = int.from_bytes(value, "big", signed=True)
    elif value.isdigit() and len(value) < len(str(2**63)):
        number = int(value)
    else:
        return None
    return number if number >= 0 else None
