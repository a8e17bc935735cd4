"""The in-memory fake of the publisher, and the broker it writes to. Same contract suite."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from integration.delivery.relay.ports import (
    FencedError,
    OutgoingRow,
    Refused,
    Sent,
    Unavailable,
    Verdict,
)
from integration.delivery.relay.steps import RelayObserver, RelayStep
from integration.kafka.errors import BrokerUnreachableError


@dataclass
class MemoryBroker:
    """What is committed, and what to do wrong next."""

    records: list[OutgoingRow] = field(default_factory=list)
    watermarks: dict[str, str] = field(default_factory=dict)
    owners: dict[str, object] = field(default_factory=dict)
    topics: set[str] | None = None
    max_bytes: int = 1_000_000
    is_available: bool = True
    # How many commits still get lost on the way back: written, but the answer never comes.
    lost_answers: int = 0

    def refusal(self, row: OutgoingRow) -> str | None:
        if self.topics is not None and row.topic not in self.topics:
            return "UNKNOWN_TOPIC"
        if len(row.value or b"") > self.max_bytes:
            return "MSG_SIZE_TOO_LARGE"
        return None


class MemoryPublisher:
    """Implements integration.delivery.relay.ports.Publisher over a MemoryBroker."""

    def __init__(self, broker: MemoryBroker, transactional_id: str = "relay") -> None:
        self.broker = broker
        self._id = transactional_id
        self._is_open = False

    def open(self) -> None:
        self._answer()
        self.broker.owners[self._id] = self
        self._is_open = True

    def watermark(self) -> str | None:
        self._answer()
        return self.broker.watermarks.get(self._id)

    def write_watermark(self, text: str) -> None:
        self._answer()
        self._check_fence()
        self.broker.watermarks[self._id] = text

    def publish(
        self,
        batch: UUID,
        rows: Sequence[OutgoingRow],
        stamp: Callable[[], None],
        observer: RelayObserver,
    ) -> Verdict:
        observer(RelayStep.BEGUN)
        for index, row in enumerate(rows):
            code = self.broker.refusal(row)
            if code is not None:
                return Refused(index, code, f"{code}: row {row.id}")
        observer(RelayStep.PRODUCED)
        stamp()
        observer(RelayStep.FLUSHED)
        observer(RelayStep.WATERMARKED)
        return self._commit(batch, rows, lambda: observer(RelayStep.COMMITTED))

    def _commit(
        self, batch: UUID, rows: Sequence[OutgoingRow], committed: Callable[[], None]
    ) -> Verdict:
        self._check_fence()
        if not (self.broker.is_available and self._is_open):
            return Unavailable("switched off")
        self.broker.records += rows
        self.broker.watermarks[self._id] = str(batch)
        if self.broker.lost_answers > 0:
            self.broker.lost_answers -= 1
            return Unavailable("the answer was lost")
        committed()
        return Sent()

    def _check_fence(self) -> None:
        if self._is_open and self.broker.owners.get(self._id) is not self:
            raise FencedError(self._id)

    def _answer(self) -> None:
        if not self.broker.is_available:
            raise BrokerUnreachableError("memory", "switched off")

    def close(self) -> None:
        self._is_open = False
