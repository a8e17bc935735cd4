"""What Kafka has: everything in a topic that a reader of committed records sees."""

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, TopicPartition

from bench import traffic
from bench.chaos.plan import PARTITIONS, SEQ_HEADER, channel_of
from bench.rig import BenchmarkError

LIMIT_SECONDS: Final = 120.0
AT_ONCE: Final = 5_000


@dataclass(frozen=True, slots=True)
class Entry:
    """A committed message, and where it lies."""

    queue: str
    seq: int
    key: str
    partition: int
    offset: int

    @property
    def publishes(self) -> str | None:
        return channel_of(self.queue, self.seq)


def book(bootstrap: str, topics: Sequence[str]) -> list[Entry]:
    """Every message in these topics. Retry markers are none."""
    return [
        Entry(topic, int(seq), record.key().decode(), record.partition(), record.offset())
        for topic in topics
        for record in _records(bootstrap, topic)
        if (seq := dict(record.headers() or ()).get(SEQ_HEADER)) is not None and record.value()
    ]


def published(bootstrap: str, topic: str) -> list[tuple[str, int]]:
    """Queue and seq of the messages whose handlers published what is in this topic."""
    return [reply(record.value()) for record in _records(bootstrap, topic)]


def reply(value: bytes | str) -> tuple[str, int]:
    """Queue and seq out of a message that a handler published, in its envelope."""
    payload: Any = json.loads(value)["payload"]
    body = json.loads(payload) if isinstance(payload, str) else payload
    return body["queue"], body["seq"]


def _records(bootstrap: str, topic: str) -> Iterator[Any]:
    reader = Consumer(
        {
            **traffic.QUIET,
            "bootstrap.servers": bootstrap,
            "group.id": "chaos",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    try:
        reader.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS[topic])])
        yield from _up_to_the_end(reader, topic)
    finally:
        reader.close()


def _up_to_the_end(reader: Consumer, topic: str) -> Iterator[Any]:
    """All records of all partitions. Raises BenchmarkError where the end does not come."""
    ended: set[int | None] = set()
    deadline = time.monotonic() + LIMIT_SECONDS
    while len(ended) < PARTITIONS[topic]:
        if time.monotonic() > deadline:
            raise BenchmarkError(f"{topic} was not read to its end in {LIMIT_SECONDS:.0f} s")
        for record in reader.consume(AT_ONCE, 1.0):
            error = record.error()
            if error is None:
                yield record
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - its public name
                ended.add(record.partition())
