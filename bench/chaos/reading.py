"""What Kafka has: everything in a topic that a reader of committed records sees."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bench import traffic
from bench.chaos.plan import PARTITIONS, SEQ_HEADER, channel_of


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
        for record in traffic.committed(bootstrap, topic, PARTITIONS[topic])
        if (seq := dict(record.headers() or ()).get(SEQ_HEADER)) is not None and record.value()
    ]


def published(bootstrap: str, topic: str) -> list[tuple[str, int]]:
    """Queue and seq of the messages whose handlers published what is in this topic."""
    return [
        reply(record.value()) for record in traffic.committed(bootstrap, topic, PARTITIONS[topic])
    ]


def reply(value: bytes | str) -> tuple[str, int]:
    """Queue and seq out of a message that a handler published, in its envelope."""
    payload: Any = json.loads(value)["payload"]
    body = json.loads(payload) if isinstance(payload, str) else payload
    return body["queue"], body["seq"]
