"""One message in work: where it came from, what it says, and what is already known about it."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from integration.delivery.outcome import Outcome
from integration.delivery.tracked import Tracked
from integration.formats.schema import SchemaFacts
from integration.handlers.registry import Registration
from integration.message import Message
from integration.policy.states import ErrorState
from integration.values import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenError:
    """An open row of the error table as the engine read it.

    `since_first_seconds` is the age of its first failure, or of the first one since it was released
    or parked and was tried again, by the database's clock; `state` and
    `version` fence every change; `arrival` is (batch, place) of its first committed attempt;
    `message_id` is the id it failed under, whatever a person has made of its payload since.
    `parked` ones may be passed by messages of other keys, in a sequential queue as well.
    `waits_for` is the hash of the object it waits for.
    `due_in_seconds` is the time left until its next try, also by that clock, below 0 since then.
    """

    id: UUID
    version: int
    state: str
    partition: int
    offset: int
    topic_uuid: str
    attempts: int
    retry_no: int
    spent: int
    crashes: int
    carrier: str
    code: str
    due_in_seconds: float
    late: bool
    apply_as_newest: bool
    parked: bool
    copied: bool
    arrival_batch: int | None
    arrival_index: int | None
    newest_batch: int | None
    newest_index: int | None
    since_first_seconds: float
    timestamp: datetime | None
    message_id: str
    interface: str
    order_key: bytes | None
    waits_for: bytes | None
    record: Record

    @property
    def due(self) -> bool:
        return self.due_in_seconds <= 0

    @property
    def number(self) -> tuple[int, int] | None:
        """The arrival number of its tries; None where the next one draws it.

        Treated as the newest it is as new as the first try that did so: what came after that is
        newer. Its place among the failures of its key stays that of its message.
        """
        batch, index = self.arrival_batch, self.arrival_index
        if self.apply_as_newest:
            batch, index = self.newest_batch, self.newest_index
        return None if batch is None or index is None else (batch, index)

    @property
    def is_runnable(self) -> bool:
        """Return whether it may be tried now, once nothing of its key stands before it."""
        if self.state == ErrorState.RETRY:
            return self.due
        return self.state in {ErrorState.READY, ErrorState.PARKED}


class Unit:
    """One message in work. Slotted and made positionally: one per message on the hot path.

    `at` is the offset it occupies in the log (of its retry marker, when one brought it). `known`
    is an outcome that stands before any handler runs (unreadable, switched off, stale retry
    marker).
    `row` is its error row when it comes from one. `moves` tells whether settling it
    moves the partition's position (records and the head of a sequential queue). `trace` is what
    tracking keeps of it besides its ids. `schema` is what it was written by in a schema registry's
    format. `order_key` is read off where keys keep their order.
    """

    __slots__ = (
        "at",
        "interface",
        "known",
        "message",
        "message_id",
        "moves",
        "order_key",
        "record",
        "row",
        "schema",
        "taker",
        "tracked",
    )

    def __init__(  # noqa: PLR0917 - positional, as one is made for every message
        self,
        record: Record,
        message: Message | None,
        taker: Registration | None,
        known: Outcome | None,
        message_id: str,
        interface: str,
    ) -> None:
        self.at = record.offset
        self.record = record
        self.message = message
        self.taker = taker
        self.known = known
        self.message_id = message_id
        self.interface = interface
        self.row: OpenError | None = None
        self.moves = True
        self.tracked: Tracked | None = None
        self.order_key: bytes | None = None
        self.schema: SchemaFacts | None = None
