"""What the relay asks of Kafka. The real publisher is in integration.kafka, the twin beside."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from integration.delivery.relay.steps import RelayObserver
from integration.delivery.values import Headers


class OutgoingRow:
    """One row of the outbox on its way. A plain slotted class: one is made per message."""

    __slots__ = ("headers", "id", "key", "partition", "topic", "value")

    def __init__(  # noqa: PLR0917 - positional, as one is made for every message
        self,
        id: int,  # noqa: A002 - the row's own word
        topic: str,
        partition: int | None,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
    ) -> None:
        self.id = id
        self.topic = topic
        self.partition = partition
        self.key = key
        self.value = value
        self.headers = headers


@dataclass(frozen=True, slots=True)
class Sent:
    """Every record and the watermark are committed."""


@dataclass(frozen=True, slots=True)
class Refused:
    """Nothing is written: Kafka will never take the record at `index`, as things stand."""

    index: int
    code: str
    text: str


@dataclass(frozen=True, slots=True)
class Unavailable:
    """No verdict about any record. Whether it was written only `open` and `watermark` tell."""

    text: str


Verdict = Sent | Refused | Unavailable


class Publisher(Protocol):
    """Writes batches in transactions under one transactional id."""

    def open(self) -> None:
        """Fence every earlier owner of the id and end its open transaction; may be repeated.

        Raises BrokerUnreachableError, TopicRefusedError, ProviderUnusableError.
        """

    def watermark(self) -> str | None:
        """What the last committed transaction left: a batch's id, "" for none yet.

        None when nothing was ever left, or Kafka has forgotten it. Waits for an open
        transaction to be decided. Raises BrokerUnreachableError.
        """

    def write_watermark(self, text: str) -> None:
        """Leave `text` in a transaction of its own. Raises BrokerUnreachableError, FencedError."""

    def publish(self, batch: UUID, rows: Sequence[OutgoingRow], observer: RelayObserver) -> Verdict:
        """Write all rows and the batch's id in one transaction, or nothing.

        Raises FencedError when another process has opened the same id since.
        """

    def close(self) -> None:
        """Leave without committing anything; may be called twice."""
