"""The broker dies under the relay and under a source, and comes back."""

import threading
import time
import uuid
from collections import Counter

import pytest
from confluent_kafka import Consumer, TopicPartition

from devstack.servers import Servers
from integration.delivery.relay.run import RelayEnd
from integration.kafka import admin
from integration.kafka.errors import BrokerUnreachableError
from integration.kafka.source import open_source
from integration.models import Provider
from integration.runs.relay import run_relay
from integration.values import TroubleKind
from tests.functional.relay_world import a_provider, nothing_left, put, states

pytestmark = [pytest.mark.servers, pytest.mark.django_db(transaction=True)]

BACK_SECONDS = 40.0


@pytest.fixture
def provider(servers: Servers) -> Provider:
    return a_provider(bootstrap_servers=servers.kafka_bootstrap)


def a_topic(provider: Provider) -> str:
    name = f"outage-{uuid.uuid4().hex[:10]}"
    admin.create_topic(provider, name, partitions=1)
    return name


def read(provider: Provider, topic: str) -> list[bytes | None]:
    committed = {"isolation.level": "read_committed", "enable.partition.eof": True}
    place = {"bootstrap.servers": provider.bootstrap_servers, "group.id": "reader"}
    reader = Consumer({**place, **committed})
    reader.assign([TopicPartition(topic, 0, 0)])
    found: list[bytes | None] = []
    while (message := reader.poll(10)) is not None and not message.error():
        found.append(message.value())
    reader.close()
    return found


def test_nothing_is_dead_lost_or_doubled_when_the_broker_dies(
    servers: Servers, provider: Provider
) -> None:
    topic, over, ends = a_topic(provider), threading.Event(), []
    values = [b"%d" % n for n in range(3000)]
    put(provider, *values[:1000], topic=topic)
    thread = threading.Thread(
        target=lambda: ends.append(run_relay(provider.pk, 0, stop=over.is_set))
    )
    thread.start()
    try:
        deadline = time.monotonic() + 20
        while "PUBLISHED" not in states():
            assert time.monotonic() < deadline
        put(provider, *values[1000:2000], topic=topic)
        servers.kafka.kill()
        put(provider, *values[2000:], topic=topic)
    finally:
        servers.kafka.start()
        deadline = time.monotonic() + BACK_SECONDS
        while not nothing_left() and time.monotonic() < deadline:
            time.sleep(0.05)
        over.set()
        thread.join()
    assert ends == [RelayEnd.STOPPED]
    assert Counter(states()) == {"PUBLISHED": 3000}
    assert read(provider, topic) == values


def test_a_source_tells_of_the_outage_and_reads_on_after_it(
    servers: Servers, provider: Provider
) -> None:
    topic = a_topic(provider)
    source = open_source(provider, topic=topic, queue_name="outage")
    source.attach({0: 0})
    try:
        assert source.facts() is not None
        servers.kafka.kill()
        kinds: set[TroubleKind] = set()
        deadline = time.monotonic() + 20
        while TroubleKind.UNAVAILABLE not in kinds:
            assert time.monotonic() < deadline
            kinds |= {trouble.kind for trouble in source.fetch(10, 0.5).troubles}
        asked = time.monotonic()
        with pytest.raises(BrokerUnreachableError):
            source.facts()
        assert time.monotonic() - asked < 8
    finally:
        servers.kafka.start()
    put(provider, b"after", topic=topic)
    run_relay(provider.pk, 0, stop=nothing_left)
    found: list[bytes | None] = []
    deadline = time.monotonic() + 20
    while not found:
        assert time.monotonic() < deadline
        found = [record.value for record in source.fetch(10, 0.5).records.get(0, [])]
    assert found == [b"after"]
    assert source.facts() is not None
    source.close()
