"""The sender of the soak: as many messages a second as it is told, for hours."""

import threading
import time
from collections import Counter
from typing import Any, Final

from confluent_kafka import KafkaError

from bench import traffic
from bench.soak.plan import messages

EVERY_SECONDS: Final = 0.05
FLUSH_SECONDS: Final = 60.0


class Sender(threading.Thread):
    """Sends `burst` messages at once, or goes on at a pace until it is ended."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(name="sender", daemon=True)
        self.sent: Counter[str] = Counter()
        self.ending = threading.Event()
        self.per_second = 0.0
        self.failure: str | None = None
        self._messages = messages()
        self._producer = traffic.producer(bootstrap, **{"linger.ms": 5})

    def burst(self, count: int) -> None:
        """Send so many as fast as can be; returns when Kafka has them all."""
        self._send(count)
        self._flush()

    def run(self) -> None:
        """Keep to the pace on the whole: what was late is made up for."""
        began, count = time.monotonic(), 0
        while not self.ending.wait(EVERY_SECONDS) and self.failure is None:
            due = int((time.monotonic() - began) * self.per_second) - count
            self._send(due)
            count += due
        self._flush()

    def _send(self, count: int) -> None:
        for _ in range(count):
            message = next(self._messages)
            record = {"key": message.key, "on_delivery": self._reported}
            traffic.put(self._producer, message.queue, message.payload, **record)
            self.sent[message.queue] += 1
        self._producer.poll(0)

    def _flush(self) -> None:
        if self._producer.flush(FLUSH_SECONDS):
            self.failure = "not all messages were written"

    def _reported(self, error: KafkaError | None, _message: Any) -> None:
        if error is not None:
            self.failure = str(error)
