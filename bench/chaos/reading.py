"""What Kafka has: everything in a topic that a reader of committed records sees."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from bench import traffic
from bench.chaos.plan import PARTITIONS, SEQ_HEADER, channel_of

# As the senders note it: partition@offset.
PLACE: Final = re.compile(r"(\d+)@(\d+)")


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


def found_at(bootstrap: str, topic: str, told: str) -> str:
    """What lies at the place that a sender was told, committed or not; empty: it was told none."""
    if (place := PLACE.search(told)) is None:
        return ""
    record = traffic.first_from(bootstrap, topic, *map(int, place.groups()))
    if record is None:
        return "nothing behind it"
    seq = dict(record.headers() or ()).get(SEQ_HEADER, b"")
    return f"{seq.decode()} at {record.partition()}@{record.offset()}"


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
