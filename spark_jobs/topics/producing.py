"""Records into Kafka out of a task: idempotent, and none is taken for sent before Kafka says so.

At least once: a task that is tried again sends its records again, under the same message ids, by
which the queue that reads them drops repeats.
"""

from collections.abc import Mapping
from typing import Any, Final, NoReturn

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from spark_jobs.errors import JobError
from spark_jobs.topics.cluster import made

Headers = list[tuple[str, str | bytes | None]]
# The promises of the road, as integration.kafka.client has them; nothing overrides them.
PRODUCER: Final[Mapping[str, Any]] = {
    "enable.idempotence": True,
    "acks": "all",
    "partitioner": "murmur2_random",
    "queue.buffering.max.messages": 200_000,
    "queue.buffering.max.kbytes": 128 * 1_024,
}
# A provider may set these otherwise.
_DEFAULTS: Final[Mapping[str, Any]] = {
    "compression.type": "lz4",
    "linger.ms": 5,
    # A record that no broker took for so long is given up, and its task with it.
    "delivery.timeout.ms": 120_000,
    # What goes wrong comes with the reports; the library's own lines would go to stderr.
    "log_level": 2,
    # No call into Python for each record that arrived: those without an answer are counted in the
    # end, and a refusal is told as before.
    "delivery.report.only.error": True,
}
# By then every report has come.
FLUSH_SECONDS: Final = 150.0
FULL_QUEUE_SECONDS: Final = 0.1
# Between two looks at the reports so many records are handed over.
LOOK_EVERY: Final = 500
# It follows upon each broker's own reason, and tells less.
ALL_DOWN: Final = KafkaError._ALL_BROKERS_DOWN  # noqa: SLF001 - the library's own name


# One task follows the other in a process: to connect anew, and to be given a producer's number,
# takes as long as a thousand records.
_finished: "list[Sender]" = []


def open_sender(settings: Mapping[str, Any]) -> "Sender":
    """A sender to the cluster of these settings, which are those of `Arguments.kafka`.

    Call it inside the task. Where one with the same settings has finished, that is used again.
    Raises JobError KAFKA_UNUSABLE for settings that make no client.
    """
    while _finished:
        sender = _finished.pop()
        if sender.settings == settings:
            return sender
    return Sender(settings)


class Sender:
    """Hands records over and finds out whether all of them arrived. For one thread."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.settings = settings
        self._sent = self._refused = 0
        self._first: KafkaError | None = None
        # Why records time out is told here alone, such as a login that is refused.
        self._noticed: KafkaError | None = None
        callbacks = {"error_cb": self._notice, "on_delivery": self._report}
        self._producer = made(Producer, {**_DEFAULTS, **settings, **PRODUCER, **callbacks})

    def send(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        headers: Headers | None = None,
    ) -> None:
        """Hand one record over; its key chooses the partition, as Java's clients choose it.

        Raises JobError NOT_DELIVERED for an earlier record, too: as soon as one is refused.
        """
        while True:
            try:
                self._producer.produce(topic, value, key, headers=headers or None)
                break
            except BufferError:
                # The client's queue is full; serving reports makes room.
                self._producer.poll(FULL_QUEUE_SECONDS)
                self._check()
            except KafkaException as e:
                self._refused += 1
                self._first = self._first or e.args[0]
                self._give_up()
        self._sent += 1
        if self._sent % LOOK_EVERY == 0:
            self._producer.poll(0)
            self._check()

    def finish(self) -> int:
        """Wait for every report; return how many records are in Kafka: all that were sent.

        Whoever is given this sender next counts from nothing; it is not to be used after this.
        Raises JobError NOT_DELIVERED when one is not, or when nobody knows.
        """
        # It raises nothing and returns what is left: that and the refusals have to be looked at.
        left = self._producer.flush(FLUSH_SECONDS)
        self._check()
        if left:
            self._give_up()
        confirmed, self._sent = self._sent, 0
        self._noticed = None
        _finished.append(self)
        return confirmed

    def _report(self, error: KafkaError | None, _message: Message) -> None:
        """Runs inside the library's calls; must not raise."""
        if error is not None:
            self._refused += 1
            self._first = self._first or error

    def _notice(self, error: KafkaError) -> None:
        """Runs inside the library's calls; must not raise."""
        if self._noticed is None or error.code() != ALL_DOWN:
            self._noticed = error

    def _check(self) -> None:
        if self._refused:
            self._give_up()

    def _give_up(self) -> NoReturn:
        # What waits in the client is not sent behind the task's back.
        self._producer.purge()
        why = [error.str() for error in (self._first, self._noticed) if error is not None]
        reason = "; ".join(dict.fromkeys(why)) or "no answer came in time"
        raise JobError(
            "NOT_DELIVERED",
            f"Kafka did not take every record ({reason}).",
            "Mend what it says, then let the run go on: what was sent is not sent again.",
        )
