"""The relay from the database to a real broker: complete, in order, and soon."""

import os
import threading
import time
import uuid
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, TopicPartition

from devstack.server import Server
from integration.delivery.relay.run import RelayEnd
from integration.kafka import admin
from integration.models import OutboxRow, Provider
from integration.policy.client_properties import DEFAULTS
from integration.runs.relay import run_relay
from tests.functional.relay_world import a_provider, put, states

pytestmark = [pytest.mark.servers, pytest.mark.django_db(transaction=True)]


class Running:
    """A relay in a thread, and a read_committed reader of its topic."""

    def __init__(self, provider: Provider) -> None:
        self.provider = provider
        self.topic = f"relayed-{uuid.uuid4().hex[:10]}"
        bootstrap = {"bootstrap.servers": provider.bootstrap_servers}
        admin.create_topic(provider, self.topic, partitions=1)
        committed = {"isolation.level": "read_committed", "fetch.wait.max.ms": 5}
        self.reader = Consumer({**bootstrap, **committed, "group.id": "reader"})
        self.reader.assign([TopicPartition(self.topic, 0, 0)])
        self.over = threading.Event()
        self.end: RelayEnd | None = None
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        self.end = run_relay(self.provider.pk, 0, stop=self.over.is_set)

    def read(self, count: int) -> list[bytes | None]:
        found: list[bytes | None] = []
        deadline = time.monotonic() + 20
        while len(found) < count and time.monotonic() < deadline:
            message = self.reader.poll(0.5)
            if message is not None and not message.error():
                found.append(message.value())
        return found

    def close(self) -> None:
        self.over.set()
        self.thread.join()
        self.reader.close()


@pytest.fixture
def running(kafka: Server) -> Iterator[Running]:
    made = Running(a_provider(bootstrap_servers=kafka.bootstrap))
    yield made
    made.close()
    assert made.end is RelayEnd.STOPPED


def test_everything_arrives_once_and_in_order(running: Running) -> None:
    values = [b"%d" % n for n in range(3000)]
    for start in range(0, 3000, 500):
        put(running.provider, *values[start : start + 500], topic=running.topic, key=b"k")
    assert running.read(3000) == values
    deadline = time.monotonic() + 10
    while set(states()) != {"PUBLISHED"}:
        assert time.monotonic() < deadline
    assert running.reader.poll(0.3) is None


def test_a_message_is_in_kafka_soon_after_its_commit(running: Running) -> None:
    put(running.provider, b"warm", topic=running.topic)
    running.read(1)
    delays = []
    for n in range(20):
        put(running.provider, b"%d" % n, topic=running.topic)
        committed = time.monotonic()
        assert running.read(1) == [b"%d" % n]
        delays.append(time.monotonic() - committed)
        time.sleep(0.03)
    # 20 ms of polling, one statement, one transaction of Kafka. A poll of a second or a retry
    # back-off of 100 ms would delay each of them, a busy machine does not.
    assert min(delays) < 0.1, delays


def test_an_unknown_topic_and_a_bad_partition_are_dead_alone(running: Running) -> None:
    put(running.provider, b"1", topic=running.topic)
    bad = put(running.provider, b"lost", topic="nobody-made-it")
    worse = put(running.provider, b"lost", topic=running.topic, partition=99)
    put(running.provider, b"2", topic=running.topic)
    assert running.read(2) == [b"1", b"2"]
    assert states(*bad, *worse) == ["DEAD", "DEAD"]
    codes = (
        OutboxRow.objects.filter(state="DEAD").order_by("id").values_list("dead_code", flat=True)
    )
    assert all("UNKNOWN" in code for code in codes)


def test_rows_too_large_among_many_hold_nobody_up_for_long(running: Running) -> None:
    """Aborting after a refused record may take 20 s with the library alone: five, less than one."""
    values = [b"%d" % n for n in range(1500)]
    for place in (250, 251, 600, 950, 1300):
        values[place] = os.urandom(2_000_000)
    put(running.provider, b"first", topic=running.topic)
    running.read(1)
    since = time.monotonic()
    rows = put(running.provider, *values, topic=running.topic)
    assert running.read(1495) == [value for value in values if len(value) < 10]
    assert time.monotonic() - since < DEFAULTS["delivery.timeout.ms"] / 1_000
    assert states(*rows).count("DEAD") == 5


def test_rows_to_an_unknown_topic_are_found_out_together(running: Running) -> None:
    """The first costs the 2 s that a new topic may need; the others one question."""
    topic = f"not-yet-{uuid.uuid4().hex[:8]}"
    rows = put(running.provider, *[b"lost"] * 8, topic=topic)
    since = time.monotonic()
    while set(states(*rows)) != {"DEAD"}:
        assert time.monotonic() - since < 12
        time.sleep(0.05)
    admin.create_topic(running.provider, topic, partitions=1)
    later = put(running.provider, b"found", topic=topic)
    while states(*later) != ["PUBLISHED"]:
        assert time.monotonic() - since < 20
        time.sleep(0.05)
