"""The bridges that one would write between a topic and a JMS queue, without Sluice.

To JMS: it reads Kafka, sends a hundred messages in one AMQP transaction, and commits the offsets
once that is committed. From JMS: it writes a hundred messages to Kafka, and accepts them in one
AMQP transaction once Kafka has them all. What either had through when it died in between it sends
again: nobody drops the second copy.
"""

import os
import sys
import time
from collections import deque
from typing import Any, Final

from confluent_kafka import Consumer, TopicPartition
from proton import Message
from proton.handlers import MessagingHandler, TransactionHandler
from proton.reactor import Container

from bench import traffic
from bench.handwritten import WAIT_SECONDS, consumer_settings
from bench.jms import AQueue
from devstack.artemis import USER

BATCH: Final = 100


class FromJms(MessagingHandler, TransactionHandler):
    """One transaction after the other, until so many messages are accepted."""

    def __init__(self, topic: str, count: int, port: str, password: str, address: str) -> None:
        super().__init__(prefetch=2 * BATCH, auto_accept=False, auto_settle=False)
        self.topic, self.count, self.address = topic, count, address
        self.port, self.password = port, password
        self.producer = traffic.producer(os.environ["SLUICE_KAFKA_BOOTSTRAP"], **{"linger.ms": 5})
        self.waiting: deque[Any] = deque()
        self.transaction: Any = None
        self.through = 0
        self.began = self.seconds = 0.0

    def on_start(self, event: Any) -> None:
        self.container = event.container
        self.connection = connect(event.container, self.port, self.password)
        self.container.create_receiver(self.connection, self.address, options=[AQueue()])
        self.container.declare_transaction(self.connection, handler=self)

    def on_message(self, event: Any) -> None:
        self.began = self.began or time.perf_counter()
        self.waiting.append((event.message, event.delivery))
        self._forward()

    def on_transaction_declared(self, event: Any) -> None:
        self.transaction = event.transaction
        self._forward()

    def _forward(self) -> None:
        few = min(BATCH, self.count - self.through)
        if self.transaction is None or len(self.waiting) < few:
            return
        batch = [self.waiting.popleft() for _ in range(few)]
        for message, _ in batch:
            headers: list[tuple[str, str | bytes | None]] = [
                ("JMSMessageID", str(message.id).encode())
            ]
            self.producer.produce(self.topic, message.body.encode(), headers=headers)
        self.producer.flush()
        for _, delivery in batch:
            self.transaction.accept(delivery)
        self.transaction.commit()
        self.transaction = None
        self.through += few

    def on_transaction_committed(self, _event: Any) -> None:
        if self.through < self.count:
            self.container.declare_transaction(self.connection, handler=self)
            return
        self.seconds = time.perf_counter() - self.began
        self.connection.close()


class ToJms(MessagingHandler, TransactionHandler):
    """One transaction after the other, until an offset is reached. `seconds` is what that took."""

    def __init__(self, topic: str, until_offset: int, port: str, password: str, to: str) -> None:
        super().__init__(prefetch=0, auto_settle=False)
        self.until_offset = until_offset
        self.port, self.password, self.to = port, password, to
        self.at = 0
        self.consumer = Consumer(consumer_settings())
        self.consumer.assign([TopicPartition(topic, 0, 0)])
        self.began = self.seconds = 0.0

    def on_start(self, event: Any) -> None:
        self.container = event.container
        self.connection = connect(self.container, self.port, self.password)
        self.sender = self.container.create_sender(self.connection, self.to, options=[AQueue()])
        self.container.declare_transaction(self.connection, handler=self)

    def on_transaction_declared(self, event: Any) -> None:
        self.began = self.began or time.perf_counter()
        records: list[Any] = []
        while not records:
            records = self.consumer.consume(BATCH, WAIT_SECONDS)
        for record in records:
            body = record.value().decode()
            message = Message(id=f"{record.offset()}", durable=True, body=body)
            event.transaction.send(self.sender, message)
        self.at = records[-1].offset() + 1
        event.transaction.commit()

    def on_transaction_committed(self, _event: Any) -> None:
        self.consumer.commit(asynchronous=True)
        if self.at < self.until_offset:
            self.container.declare_transaction(self.connection, handler=self)
            return
        self.seconds = time.perf_counter() - self.began
        self.connection.close()


def connect(container: Any, port: str, password: str) -> Any:
    return container.connect(
        f"127.0.0.1:{port}",
        user=USER,
        password=password,
        allow_insecure_mechs=True,
        allowed_mechs="PLAIN",
        reconnect=False,
    )


def main() -> None:
    """Arguments: to or from, topic, how many, port, password, queue. Prints messages a second."""
    way, topic, count, port, password, address = sys.argv[1:]
    bridge = (ToJms if way == "to" else FromJms)(topic, int(count), port, password, address)
    Container(bridge).run()
    print(int(count) / bridge.seconds, flush=True)


if __name__ == "__main__":
    main()
