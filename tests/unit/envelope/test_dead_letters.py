"""Headers of other frameworks about a failure: read whatever they hold, never trusted."""

import struct
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from integration.delivery.foreign import FOREIGN, foreign_failure
from integration.envelope.dead_letters import (
    CONNECT,
    SPRING,
    DeadLetter,
    dead_letter_of,
    without_telling,
)
from tests.support.deliveries import a_record

pytestmark = pytest.mark.fast

# As DeadLetterPublishingRecoverer writes them.
BY_SPRING = [
    ("kafka_dlt-exception-fqcn", b"org.springframework.kafka.listener.ListenerExecutionFailed"),
    ("kafka_dlt-exception-cause-fqcn", b"java.lang.IllegalStateException"),
    ("kafka_dlt-exception-message", b"Listener threw exception; order 'A-1' has no line 4711"),
    ("kafka_dlt-exception-stacktrace", b"java.lang.IllegalStateException: ...\n\tat a.B.c"),
    ("kafka_dlt-original-topic", b"orders"),
    ("kafka_dlt-original-partition", struct.pack(">i", 3)),
    ("kafka_dlt-original-offset", struct.pack(">q", 5_000_000_000)),
    ("kafka_dlt-original-timestamp", struct.pack(">q", 1_700_000_000_000)),
    ("kafka_dlt-original-timestamp-type", b"CreateTime"),
    ("kafka_dlt-original-consumer-group", b"billing"),
    ("retry_topic-attempts", struct.pack(">i", 4)),
]
# As it writes them for @RetryableTopic; older ones have the group under the first name.
BY_RETRIES = [
    (name if "group" in name else name.replace("kafka_dlt-", "kafka_"), value)
    for name, value in BY_SPRING
]
# As the reporter of a sink connector writes them.
BY_CONNECT = [
    ("__connect.errors.topic", b"orders"),
    ("__connect.errors.partition", b"0"),
    ("__connect.errors.offset", b"200"),
    ("__connect.errors.connector.name", b"orders-sink"),
    ("__connect.errors.task.id", b"0"),
    ("__connect.errors.stage", b"VALUE_CONVERTER"),
    ("__connect.errors.class.name", b"org.apache.kafka.connect.json.JsonConverter"),
    ("__connect.errors.exception.class.name", b"org.apache.kafka.connect.errors.DataException"),
    ("__connect.errors.exception.message", b"Converting byte[] failed"),
    ("__connect.errors.exception.stacktrace", b"org.apache..."),
]


def read(headers: list[tuple[str, bytes]]) -> DeadLetter:
    letter = dead_letter_of(headers)
    assert letter is not None
    return letter


def test_spring_kafkas_headers_are_read():
    letter = read([("trace", b"1"), *BY_SPRING])
    assert (letter.framework, letter.reader) == (SPRING, "billing")
    assert (letter.topic, letter.partition, letter.offset) == ("orders", 3, 5_000_000_000)
    assert letter.timestamp_ms == 1_700_000_000_000
    assert letter.cause == "java.lang.IllegalStateException"


def test_so_are_those_of_its_retry_topics():
    assert read(BY_RETRIES) == read(BY_SPRING)
    later = [("kafka_dlt-original-topic", b"orders-retry"), *BY_RETRIES]
    assert read(later).topic == "orders-retry"
    key = [("kafka_original-topic", b"orders"), ("kafka_key-exception-fqcn", b"a.BadKey")]
    assert read(key).cause == "a.BadKey"
    assert list(without_telling([("a", b"1"), *BY_RETRIES, *key])) == [("a", b"1")]


def test_alone_such_a_name_is_anybodys():
    headers = [("kafka_exception-message", b"ours"), ("kafka_original-sender", b"me")]
    assert dead_letter_of(headers) is None
    assert list(without_telling(headers)) == headers


def test_kafka_connects_headers_are_read():
    letter = read(BY_CONNECT)
    assert (letter.framework, letter.reader) == (CONNECT, "orders-sink")
    assert (letter.topic, letter.partition, letter.offset) == ("orders", 0, 200)
    assert letter.short_cause == "DataException"


def test_of_repeated_headers_the_last_counts_as_spring_appends_them():
    again = [("kafka_dlt-original-topic", b"orders-copy"), ("kafka_dlt-original-partition", b"7")]
    letter = read([*BY_SPRING, *again])
    assert (letter.topic, letter.partition) == ("orders-copy", 7)


@pytest.mark.parametrize(
    "header",
    [
        ("kafka_dlt-original-partition", b"3000000000"),
        ("__connect.errors.partition", b"2147483648"),
        ("__connect.errors.partition", b"-1"),
    ],
)
def test_a_number_that_no_partition_has_is_none(header):
    letter = read([*(BY_SPRING if "kafka" in header[0] else BY_CONNECT), header])
    assert (letter.topic, letter.partition) == ("orders", None)
    assert letter.offset is not None


def test_the_largest_number_of_a_partition_is_read():
    letter = read([*BY_CONNECT, ("__connect.errors.partition", b"2147483647")])
    assert letter.partition == 2**31 - 1


@pytest.mark.parametrize("headers", [None, [], [("trace", b"1")], [("kafka_dlt-x", b"")]])
def test_other_headers_are_no_dead_letter(headers):
    assert dead_letter_of(headers) is None
    assert foreign_failure(a_record(headers=headers)) is FOREIGN


def test_sent_back_a_record_has_the_headers_it_had_before():
    assert list(without_telling([("a", b"1"), *BY_SPRING, *BY_CONNECT, ("b", None)])) == [
        ("a", b"1"),
        ("b", None),
    ]


def test_the_failure_names_who_and_why_and_quotes_nothing():
    failure = foreign_failure(a_record(headers=BY_SPRING))
    assert failure.code == "DEAD_LETTER"
    assert failure.text.startswith("Spring Kafka (billing) gave it up: IllegalStateException: ")
    assert "A-1" not in failure.text
    assert "A-1" in failure.detail
    other = [
        *BY_SPRING,
        ("kafka_dlt-exception-message", b"Listener threw exception; order 'B' has no line 9"),
    ]
    assert foreign_failure(a_record(headers=other)).fingerprint == failure.fingerprint
    assert replace(failure, text="x").fingerprint != failure.fingerprint


DIGITS = st.integers(0, 10**20).map(lambda number: str(number).encode())
NAMES = st.sampled_from([name for name, _ in BY_SPRING + BY_RETRIES + BY_CONNECT] + ["other"])


@given(st.lists(st.tuples(NAMES, st.none() | DIGITS | st.binary(max_size=40)), max_size=12))
def test_no_bytes_in_them_do_any_harm(headers):
    letter = dead_letter_of(headers)
    if letter is not None:
        assert letter.topic or letter.cause
        assert letter.partition is None or 0 <= letter.partition < 2**31
        for number in (letter.offset, letter.timestamp_ms):
            assert number is None or 0 <= number < 2**63
        assert "\0" not in letter.topic + letter.cause + letter.message + letter.trace
    foreign_failure(a_record(headers=headers))
