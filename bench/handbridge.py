"""The bridge that one would write from a topic to a JMS queue, without Sluice.

It reads Kafka, sends a hundred messages in one AMQP transaction, and commits the offsets once that
is committed. What it sent when it died in between it sends again: nobody drops the second copy.
"""

import sys
import time
from typing import Any, Final

from confluent_kafka import Consumer, TopicPartition
from proton import Message
from proton.handlers import MessagingHandler, TransactionHandler
from proton.reactor import Container

from bench.handwritten import WAIT_SECONDS, consumer_settings
from bench.jms import AQueue
from devstack.artemis import USER

BATCH: Final = 100


class Bridge(MessagingHandler, TransactionHandler):
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
        self.connection = self.container.connect(
            f"127.0.0.1:{self.port}",
            user=USER,
            password=self.password,
            allow_insecure_mechs=True,
            allowed_mechs="PLAIN",
            reconnect=False,
        )
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


def main() -> None:
    """Arguments: topic, offset, port, password, queue. Prints messages a second."""
    topic, until_offset, port, password, to = sys.argv[1:]
    bridge = Bridge(topic, int(until_offset), port, password, to)
    Container(bridge).run()
    bridge.consumer.close()
    print(int(until_offset) / bridge.seconds, flush=True)


if __name__ == "__main__":
    main()
