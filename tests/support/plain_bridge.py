"""A bridge by the rules of those that write down afterwards how far they are."""

from collections.abc import Iterator
from contextlib import closing
from typing import Final

from confluent_kafka import Consumer, Producer, TopicPartition
from proton import Message

from bench.jms import AQueue
from devstack.artemis import USER
from tests.support.amqp import Broker
from tests.support.amqp_client import connected

WAIT_SECONDS: Final = 10


def egress(jms: Broker, address: str, bootstrap: str, topic: str, *, take: int, dies: bool) -> None:
    """Divert so many messages to Kafka; then save that, unless it dies before."""
    producer = Producer({"bootstrap.servers": bootstrap})
    with connected(jms.port, (USER, jms.server.password)) as connection:
        receiver = connection.create_receiver(address, credit=take, options=[AQueue()])
        for _ in range(take):
            producer.produce(topic, receiver.receive(timeout=WAIT_SECONDS).body)
        assert not producer.flush(WAIT_SECONDS)
        if not dies:
            for _ in range(take):
                receiver.accept()


def ingress(jms: Broker, address: str, bootstrap: str, topic: str, *, dies_after: int = 0) -> None:
    """Send the next batch to JMS; then commit its offsets, unless it dies after so many sends."""
    group = {"group.id": f"bridge-{topic}", "enable.auto.commit": False}
    consumer = Consumer({"bootstrap.servers": bootstrap, **group, "enable.partition.eof": True})
    with closing(consumer), connected(jms.port, (USER, jms.server.password)) as connection:
        sender = connection.create_sender(address, options=[AQueue()])
        batch = list(_polled(consumer, topic))
        for number, (_, value) in enumerate(batch, 1):
            sender.send(Message(durable=True, body=value.decode()))
            if number == dies_after:
                return
        behind = TopicPartition(topic, 0, batch[-1][0] + 1)
        consumer.commit(offsets=[behind], asynchronous=False)


def _polled(consumer: Consumer, topic: str) -> Iterator[tuple[int, bytes]]:
    """All that lies behind the committed offset."""
    [committed] = consumer.committed([TopicPartition(topic, 0)], WAIT_SECONDS)
    consumer.assign([TopicPartition(topic, 0, max(committed.offset, 0))])
    while (message := consumer.poll(WAIT_SECONDS)) is not None and message.error() is None:
        yield message.offset() or 0, message.value() or b""
