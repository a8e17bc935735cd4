"""Factories that take part in transactions over several resources, for tests."""

import json

import pytest
from confluent_kafka import Consumer, Message, TopicPartition

from integration import connections
from integration.models import ConnectionFactory
from integration.xa.branch import Vote
from integration.xa.resource import XaResource
from integration.xa.xid import Xid
from tests.support.builders import a_provider
from tests.support.kafka_world import Kafka

LOGS = ("topic", "database")


def a_factory(broker: Kafka, xa: str = "topic", **fields) -> ConnectionFactory:
    values = {
        "name": "payments",
        "provider": a_provider(broker.bootstrap),
        "xa": xa,
        "xa_side_topic": broker.topic(partitions=2),
    }
    if xa == "topic":
        values["xa_log_topic"] = broker.topic(**{"cleanup.policy": "compact"})
    factory = ConnectionFactory(**(values | fields))
    factory.full_clean()
    factory.save()
    return factory


def records(broker: Kafka, topic: str) -> list[Message]:
    """What `Kafka.read_all` gives once all is decided, without its wait for the topic's end."""
    broker.await_decided(topic)
    to = {"bootstrap.servers": broker.bootstrap, "group.id": "account", "fetch.wait.max.ms": 5}
    reader = Consumer({**to, "isolation.level": "read_committed", "enable.partition.eof": True})
    reader.assign([TopicPartition(topic, 0, 0)])
    found: list[Message] = []
    while (message := reader.poll(60)) is not None and message.error() is None:
        found.append(message)
    assert message is not None, "the topic does not answer"
    reader.close()
    return found


def read(broker: Kafka, topic: str) -> list[object]:
    return [json.loads(record.value() or b"") for record in records(broker, topic)]


@pytest.fixture(name="broker")
def given_broker(servers):
    yield Kafka(servers.kafka_bootstrap)
    connections.close_all()


@pytest.fixture(name="topic")
def given_topic(broker, log):
    a_factory(broker, log)
    return broker.topic()


@pytest.fixture(name="log")
def given_log():
    """Both have the same contract: what is told here of one of them is true of the other."""
    return "topic"


def prepared(topic: str, *values: bytes, xid: Xid | None = None) -> Xid:
    resource, xid = connections.lookup("payments").xa(), xid or Xid.fresh(1, b"here")
    resource.start(xid)
    for value in values:
        resource.send(xid, topic, value, b"key", [("tenant", b"north")])
    resource.end(xid)
    assert resource.prepare(xid) is Vote.READY
    return xid


def elsewhere() -> XaResource:
    """The resource of another process, which knows what the log knows."""
    row = ConnectionFactory.objects.get(name="payments")
    factory = connections.Factory(row)
    return factory.xa()


@pytest.fixture(name="other")
def given_other(topic):
    resource = elsewhere()
    yield resource
    resource.close()
