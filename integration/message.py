"""The message as a handler gets it, with its context. One object is made per message."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from integration.envelope import Bare, Document
from integration.envelope.retry_wrapper import resends
from integration.values import Record


class Position(NamedTuple):
    """The place of a record in Kafka: provenance, never age."""

    topic: str
    partition: int
    offset: int


class Arrival(NamedTuple):
    """The arrival of a message; the only thing ages are compared by, batch first, then place."""

    batch: int
    place: int


class Origin(NamedTuple):
    """The facts that all messages of one service on one queue have in common."""

    interface: str
    system: str | None
    queue: str
    topic: str


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
        "_document",
        "arrival",
        "attempt",
        "body",
        "late",
        "message_id",
        "origin",
        "record",
        "topic_uuid",
    )
    arrival: Arrival
    topic_uuid: str

    def __init__(
        self,
        record: Record,
        origin: Origin,
        message_id: str,
        body: Any,
        document: Document | None,
    ) -> None:
        self.record = record
        self.origin = origin
        self.message_id = message_id
        self.body = body
        self._document = document
        # The engine sets `arrival` and `topic_uuid` when the batch has drawn its number.
        self.attempt = 1
        self.late = False

    @property
    def document(self) -> Document | None:
        """The envelope's word; None for a tombstone. Made here when there was no envelope."""
        if self._document is None and self.record.value is not None:
            self._document = Bare(self.body, self.record.value)
        return self._document

    @property
    def interface(self) -> str:
        return self.origin.interface

    @property
    def system(self) -> str | None:
        return self.origin.system

    @property
    def queue(self) -> str:
        return self.origin.queue

    @property
    def topic(self) -> str:
        return self.origin.topic

    @property
    def key(self) -> bytes | None:
        return self.record.key

    @property
    def headers(self) -> Sequence[tuple[str, bytes | None]]:
        return self.record.headers or ()

    @property
    def partition(self) -> int:
        return self.record.partition

    @property
    def offset(self) -> int:
        return self.record.offset

    @property
    def position(self) -> Position:
        return Position(self.origin.topic, self.record.partition, self.record.offset)

    @property
    def resends(self) -> int:
        """How often it was sent again, as its wrapper or its header `retryCount` says."""
        return resends(self.record.value, self.record.headers)

    @property
    def text(self) -> str | bytes:
        return b"" if self.document is None else self.document.payload

    @property
    def sender(self) -> str | None:
        return None if self.document is None else self.document.sender

    @property
    def user(self) -> str | None:
        return None if self.document is None else self.document.user

    def header(self, name: str) -> str | None:
        """The header's text, or None; bytes that are not UTF-8 are read as Latin-1."""
        for key, value in self.headers:
            if key.lower() == name.lower():
                if value is None:
                    return ""
                try:
                    return value.decode()
                except UnicodeDecodeError:
                    return value.decode("latin-1")
        return None

    def __repr__(self) -> str:
        return f"<Message {self.interface} {self.message_id}>"
