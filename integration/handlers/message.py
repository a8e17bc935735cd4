"""What a handler gets: the message with its context. One object is made per message."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from integration.envelope import Document


class Position(NamedTuple):
    """Where a record stands in Kafka: provenance, never age."""

    topic: str
    partition: int
    offset: int


class Arrival(NamedTuple):
    """When a message arrived; the only thing ages are compared by, batch first, then place."""

    batch: int
    place: int


class Message:
    """One business message as a handler sees it.

    `body` is the parsed payload: dict, list or scalar for JSON (whole numbers are int, others
    Decimal), an lxml element for XML, None for a tombstone. `document` is what the envelope said;
    `text` is the payload as it came out of it.
    `attempt` is 1 at the first try. `late` is true when newer messages of the queue were applied
    before it. `key` and `headers` are the Kafka record's. Handlers may run twice and roll back:
    only what is written through the ORM and `publish()` counts once.
    """

    __slots__ = (
        "arrival",
        "attempt",
        "body",
        "document",
        "headers",
        "interface",
        "key",
        "late",
        "message_id",
        "offset",
        "partition",
        "queue",
        "system",
        "topic",
        "topic_uuid",
    )

    body: Any
    document: Document | None
    interface: str
    key: bytes | None
    headers: Sequence[tuple[str, bytes | None]]
    message_id: str
    system: str | None
    queue: str
    topic: str
    topic_uuid: str
    partition: int
    offset: int
    arrival: Arrival
    attempt: int
    late: bool

    @property
    def text(self) -> str | bytes:
        return b"" if self.document is None else self.document.payload

    @property
    def sender(self) -> str | None:
        return None if self.document is None else self.document.sender

    @property
    def user(self) -> str | None:
        return None if self.document is None else self.document.user

    @property
    def position(self) -> Position:
        return Position(self.topic, self.partition, self.offset)

    def header(self, name: str) -> str | None:
        """The header's text, or None; bytes that are not UTF-8 are read as Latin-1."""
        for known, value in self.headers:
            if known.lower() == name.lower():
                if value is None:
                    return ""
                try:
                    return value.decode()
                except UnicodeDecodeError:
                    return value.decode("latin-1")
        return None

    def __repr__(self) -> str:
        return f"<Message {self.interface} {self.message_id}>"
