"""What sends while servers die: a thread that says why it gave up, and a producer that goes on."""

import threading
from abc import ABC, abstractmethod
from typing import Any, Final

from confluent_kafka import KafkaException, Producer

from bench import traffic

# Longer than any restart of the broker, and all the faults that may follow it.
DELIVERED_WITHIN_MS: Final = 300_000
PURGED_SECONDS: Final = 5.0


class Sender(threading.Thread, ABC):
    """Sends until it is ended. `failure` tells why it gave up."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self.ending = threading.Event()
        self.failure: str | None = None

    def run(self) -> None:
        try:
            self.work()
        except Exception as e:  # noqa: BLE001 - told by whoever started the thread
            self.failure = f"{self.name}: {type(e).__name__}: {e}"

    @abstractmethod
    def work(self) -> None:
        """Send until `ending` is set; what is raised becomes `failure`."""


class Lasting:
    """An idempotent producer; once it is broken, another one takes its place.

    What the broken one had not written is reported as not delivered.
    """

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._producer = self._made()

    def put(self, topic: str, value: bytes, **record: Any) -> None:
        """Put a record into the producer's queue, however long that takes."""
        while True:
            try:
                traffic.put(self._producer, topic, value, **record)
                return
            except KafkaException:
                # A fatal error: this producer sends nothing any more.
                self._producer.purge()
                self._producer.flush(PURGED_SECONDS)
                self._producer = self._made()

    def flush(self, seconds: float) -> int:
        """Wait so long; returns how many records Kafka has not confirmed."""
        return self._producer.flush(seconds)

    def _made(self) -> Producer:
        settings = {"linger.ms": 5, "delivery.timeout.ms": DELIVERED_WITHIN_MS}
        return traffic.producer(self._bootstrap, **settings)
