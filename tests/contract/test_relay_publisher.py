"""The contract of the relay's publisher, over its in-memory fake and over a real broker."""

import os
import time
import uuid
from collections.abc import Iterator
from typing import Protocol

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from devstack.server import Server
from integration.delivery.relay.ports import (
    FencedError,
    OutgoingRow,
    Publisher,
    Refused,
    Sent,
    Unavailable,
)
from integration.delivery.relay.steps import RelayStep, unobserved
from integration.kafka import hanging
from integration.kafka import publisher as kafka_publisher
from integration.kafka.ailing import MOST_ASKED
from integration.kafka.client import connection
from integration.kafka.errors import BrokerUnreachableError
from integration.kafka.publisher import KafkaPublisher
from integration.kafka.watermark import RELAY_TOPIC
from integration.models import Provider
from tests.support.kafka_world import Kafka
from tests.support.memory.relay import MemoryBroker, MemoryPublisher
from tests.support.stray_offsets import leave_records, leave_stray

TOPIC_LIMIT = 2_000_000


class Broker(Protocol):
    topic: str

    def publisher(self) -> Publisher: ...
    def read(self, count: int) -> list[tuple[bytes | None, bytes | None, list[object]]]: ...


class InMemory:
    def __init__(self) -> None:
        self.topic = "topic"
        self.broker = MemoryBroker(topics={"topic"}, max_bytes=TOPIC_LIMIT)

    def publisher(self) -> Publisher:
        return MemoryPublisher(self.broker)

    def read(self, count: int) -> list[tuple[bytes | None, bytes | None, list[object]]]:
        return [(row.key, row.value, list(row.headers)) for row in self.broker.records]


class OnKafka:
    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.topic = f"publisher-{uuid.uuid4().hex[:10]}"
        self.id = f"sluice.test.{self.topic}.0"
        settings = {"max.message.bytes": str(TOPIC_LIMIT)}
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.create_topics([NewTopic(self.topic, 1, 1, config=settings)])[self.topic].result()

    def publisher(self) -> Publisher:
        provider = Provider(pk=1, name="main", bootstrap_servers=self.bootstrap)
        return KafkaPublisher(connection(provider), self.id)

    def read(self, count: int) -> list[tuple[bytes | None, bytes | None, list[object]]]:
        """All that a read_committed reader sees; it waits for `count` and then a little longer."""
        reader = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "reader",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
            }
        )
        reader.assign([TopicPartition(self.topic, 0, 0)])
        found: list[tuple[bytes | None, bytes | None, list[object]]] = []
        deadline = time.monotonic() + 15
        while time.monotonic() < deadline:
            message = reader.poll(1.0)
            if message is not None and not message.error():
                found.append((message.key(), message.value(), list(message.headers() or [])))
            elif message is not None and len(found) >= count:
                break
        reader.close()
        return found


@pytest.fixture(params=["memory", pytest.param("kafka", marks=pytest.mark.servers)])
def broker(request: pytest.FixtureRequest) -> Broker:
    if request.param == "memory":
        return InMemory()
    return OnKafka(request.getfixturevalue("kafka").bootstrap)


@pytest.fixture
def publisher(broker: Broker) -> Iterator[Publisher]:
    made = broker.publisher()
    made.open()
    yield made
    made.close()


def rows(broker: Broker, *values: bytes | None, topic: str | None = None) -> list[OutgoingRow]:
    return [
        OutgoingRow(10 + n, topic or broker.topic, None, None, value, ())
        for n, value in enumerate(values)
    ]


def at_once() -> None:
    """Nothing has to be noted before these batches are sent."""


def test_a_batch_and_its_id_become_visible_together(broker: Broker, publisher: Publisher) -> None:
    batch, steps = uuid.uuid4(), []
    three = rows(broker, b"1", b"2", b"3")

    def stamp() -> None:
        steps.append(RelayStep.STAMPED)

    assert publisher.publish(batch, three, stamp, steps.append) == Sent()
    assert [value for _, value, _ in broker.read(3)] == [b"1", b"2", b"3"]
    assert publisher.watermark() == str(batch)
    assert steps == [
        RelayStep.BEGUN,
        RelayStep.PRODUCED,
        RelayStep.STAMPED,
        RelayStep.FLUSHED,
        RelayStep.WATERMARKED,
        RelayStep.COMMITTED,
    ]


def test_keys_headers_nulls_and_partitions_come_through(
    broker: Broker, publisher: Publisher
) -> None:
    headers = [("a", b"1"), ("größe", b"\xff"), ("none", None), ("a", b"2")]
    marker = OutgoingRow(1, broker.topic, 0, b"key", b"", headers)
    tombstone = OutgoingRow(2, broker.topic, None, None, None, ())
    assert publisher.publish(uuid.uuid4(), [marker, tombstone], at_once, unobserved) == Sent()
    assert broker.read(2) == [(b"key", b"", headers), (None, None, [])]


def test_one_record_over_the_limit_takes_its_batch_back(
    broker: Broker, publisher: Publisher
) -> None:
    first = uuid.uuid4()
    publisher.publish(first, rows(broker, b"first"), at_once, unobserved)
    large = os.urandom(TOPIC_LIMIT + 1)
    verdict = publisher.publish(uuid.uuid4(), rows(broker, b"a", large, b"b"), at_once, unobserved)
    assert isinstance(verdict, Refused)
    assert (verdict.index, verdict.code) == (1, "MSG_SIZE_TOO_LARGE")
    assert publisher.watermark() == str(first)
    assert publisher.publish(uuid.uuid4(), rows(broker, b"last"), at_once, unobserved) == Sent()
    assert [value for _, value, _ in broker.read(2)] == [b"first", b"last"]


@pytest.mark.servers
def test_a_batch_of_which_records_are_left_unconfirmed_is_taken_back(
    kafka: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker stands still from before the first record until nobody waits any more."""
    broker = OnKafka(kafka.bootstrap)
    publisher = broker.publisher()
    publisher.open()

    def stand_still(step: RelayStep) -> None:
        if step is RelayStep.BEGUN:
            kafka.pause()
        elif step is RelayStep.FLUSHED:
            kafka.resume()

    with monkeypatch.context() as patient:
        patient.setattr("integration.kafka.publisher.delivery_seconds", lambda _: 0.0)
        patient.setattr("integration.kafka.publisher.REPORT_SECONDS", 0.0)
        try:
            verdict = publisher.publish(uuid.uuid4(), rows(broker, b"a"), at_once, stand_still)
        finally:
            kafka.resume()
    assert isinstance(verdict, Unavailable)
    assert publisher.watermark() is None
    assert publisher.publish(uuid.uuid4(), rows(broker, b"later"), at_once, unobserved) == Sent()
    publisher.close()
    assert [value for _, value, _ in broker.read(1)] == [b"later"]


def test_an_unknown_topic_is_the_records_fault(broker: Broker, publisher: Publisher) -> None:
    batch = [*rows(broker, b"a"), *rows(broker, b"b", topic="nobody-made-it")]
    verdict = publisher.publish(uuid.uuid4(), batch, at_once, unobserved)
    assert isinstance(verdict, Refused)
    assert verdict.index == 1
    assert "UNKNOWN_TOPIC" in verdict.code
    assert publisher.publish(uuid.uuid4(), rows(broker, b"c"), at_once, unobserved) == Sent()
    assert [value for _, value, _ in broker.read(1)] == [b"c"]


def test_before_anything_was_left_there_is_no_watermark(
    broker: Broker, publisher: Publisher
) -> None:
    assert publisher.watermark() is None
    publisher.write_watermark("")
    assert publisher.watermark() == ""
    publisher.write_watermark("again")
    assert publisher.watermark() == "again"


def test_a_cluster_is_known_by_the_same_name_whoever_asks(
    broker: Broker, publisher: Publisher
) -> None:
    other = broker.publisher()
    other.open()
    assert publisher.cluster() == other.cluster() != ""
    other.close()


@pytest.mark.parametrize("others", [1, MOST_ASKED])
def test_topics_that_can_be_written_or_are_not_there_are_not_ailing(
    broker: Broker, others: int
) -> None:
    gone = [f"nobody-made-it-{number}" for number in range(others)]
    assert not broker.publisher().ailing([broker.topic, *gone])


def test_who_opens_later_fences_who_opened_before(broker: Broker, publisher: Publisher) -> None:
    later = broker.publisher()
    later.open()
    try:
        with pytest.raises(FencedError):
            publisher.publish(uuid.uuid4(), rows(broker, b"zombie"), at_once, unobserved)
        with pytest.raises(FencedError):
            publisher.write_watermark("zombie")
        assert later.watermark() is None
        assert later.publish(uuid.uuid4(), rows(broker, b"live"), at_once, unobserved) == Sent()
        assert [value for _, value, _ in broker.read(1)] == [b"live"]
    finally:
        later.close()


def test_opening_again_ends_what_was_left_open(broker: Broker, publisher: Publisher) -> None:
    def die(step: RelayStep) -> None:
        if step is RelayStep.WATERMARKED:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        publisher.publish(uuid.uuid4(), rows(broker, b"half"), at_once, die)
    publisher.open()
    assert publisher.watermark() is None
    assert publisher.publish(uuid.uuid4(), rows(broker, b"whole"), at_once, unobserved) == Sent()
    assert [value for _, value, _ in broker.read(1)] == [b"whole"]


@pytest.mark.servers
def test_an_offset_that_no_transaction_ends_is_in_nobodys_way(
    kafka: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker, batch = OnKafka(kafka.bootstrap), uuid.uuid4()
    publisher = broker.publisher()
    publisher.open()
    assert publisher.publish(batch, rows(broker, b"1"), at_once, unobserved) == Sent()
    publisher.close()
    leave_stray(broker.bootstrap, broker.id, RELAY_TOPIC, "stray")
    monkeypatch.setattr(kafka_publisher, "OPEN_SECONDS", 3.0)
    publisher.open()
    try:
        assert publisher.watermark() == str(batch)
        later = uuid.uuid4()
        assert publisher.publish(later, rows(broker, b"2"), at_once, unobserved) == Sent()
        assert publisher.watermark() == str(later)
        assert [value for _, value, _ in broker.read(2)] == [b"1", b"2"]
    finally:
        publisher.close()


@pytest.mark.servers
def test_a_hanging_transaction_is_aborted_before_its_records_are_sent_again(
    kafka: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker, since_ms = OnKafka(kafka.bootstrap), time.time_ns() // 1_000_000
    sent, lost = rows(broker, b"1", b"2")
    publisher = broker.publisher()
    publisher.open()
    assert publisher.publish(uuid.uuid4(), [sent], at_once, unobserved) == Sent()
    publisher.close()
    leave_records(broker.bootstrap, broker.id, broker.topic, b"2")
    publisher.open()
    try:
        with monkeypatch.context() as hasty:
            hasty.setattr(hanging, "STABLE_SECONDS", 0.5)
            with pytest.raises(BrokerUnreachableError, match="still open"):
                publisher.there([sent, lost], since_ms)
        publisher.abort_hanging([broker.topic, "no-such-topic"])
        assert publisher.there([sent, lost], since_ms) == {sent.id}
        assert publisher.there([sent, sent], since_ms) == {sent.id}
        assert publisher.publish(uuid.uuid4(), [lost], at_once, unobserved) == Sent()
        assert publisher.there([lost, sent], since_ms) == {sent.id, lost.id}
        assert [value for _, value, _ in broker.read(2)] == [b"1", b"2"]
    finally:
        publisher.close()


def test_closing_twice_is_fine_and_a_closed_publisher_sends_nothing(broker: Broker) -> None:
    made = broker.publisher()
    made.open()
    made.write_watermark("")
    made.close()
    made.close()
    verdict = made.publish(uuid.uuid4(), rows(broker, b"late"), at_once, unobserved)
    assert isinstance(verdict, Unavailable)


def of_java(key: bytes, partitions: int) -> int:
    """The partition in which Java's clients put a key: murmur2 as Kafka's utilities define it."""
    factor, mask = 0x5BD1E995, 0xFFFFFFFF
    state = (0x9747B28C ^ len(key)) & mask
    whole = len(key) // 4 * 4
    for place in range(0, whole, 4):
        word = int.from_bytes(key[place : place + 4], "little") * factor & mask
        word = (word ^ word >> 24) * factor & mask
        state = (state * factor & mask) ^ word
    if key[whole:]:
        state = (state ^ int.from_bytes(key[whole:], "little")) * factor & mask
    state = (state ^ state >> 13) * factor & mask
    return ((state ^ state >> 15) & 0x7FFFFFFF) % partitions


@pytest.mark.servers
def test_keys_lie_where_javas_clients_put_them(kafka: Server) -> None:
    world, partitions = Kafka(kafka.bootstrap), 7
    topic = world.topic(partitions)
    keys = [b"k" * length + bytes([length]) for length in range(24)]
    provider = Provider(pk=1, name="main", bootstrap_servers=kafka.bootstrap)
    publisher = KafkaPublisher(connection(provider), f"sluice.test.{topic}.0")
    publisher.open()
    out = [OutgoingRow(n, topic, None, key, b"", ()) for n, key in enumerate(keys)]
    assert publisher.publish(uuid.uuid4(), out, at_once, unobserved) == Sent()
    publisher.close()
    read = {m.key(): m.partition() for m in world.read_all(topic, range(partitions))}
    assert read == {key: of_java(key, partitions) for key in keys}
