"""Rows of the in-memory fakes' tables, one class a table."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

from integration.delivery.key_order import order_key_of
from integration.delivery.owned import OpenBatch
from integration.policy.states import ErrorState, OutboxState, PartitionState
from integration.values import Outgoing, Record


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorRow:
    """A row of the error table; `version` fences every change.

    `failed_at` and `closed_at` are moments, numbered like those at which people move a position.
    """

    id: UUID
    topic_uuid: str
    record: Record
    message_id: str
    interface: str
    state: ErrorState
    code: str
    attempts: int
    retry_no: int
    spent: int
    carrier: str
    arrival: tuple[int, int]
    first_failed_at: float
    budget_since: float | None = None
    not_before: float | None = None
    crashes: int = 0
    late: bool = False
    apply_as_newest: bool = False
    newest_batch: int | None = None
    newest_index: int | None = None
    parked: bool = False
    waits_for: bytes | None = None
    woken_by: int | None = None
    version: int = 1
    epoch: int | None = None
    edited: bytes | None = None
    copied_at: float | None = None
    copy_offset: int | None = None
    expired: bool = False
    ended: str = ""
    failed_at: int = 0
    closed_at: int | None = None

    @property
    def order_key(self) -> bytes | None:
        return order_key_of(self.record)

    @property
    def place(self) -> tuple[str, int, int]:
        """Its identity: (topic UUID, partition, first offset)."""
        return self.topic_uuid, self.record.partition, self.record.offset


@dataclass(slots=True, kw_only=True)
class PlaceRow:
    """A partition's row and its lease: `owner` holds the lock, `released` tells a clean end.

    `locked`: a transaction has changed the row and has not ended yet. `open_batch`: what is worked
    side by side, as it is committed. `moves`: when a person moved the position, and
    how far it had come, the last one first; without those that it has passed again.
    """

    id: int
    partition: int
    topic_uuid: str
    next_offset: int
    epoch: int = 0
    last_batch: UUID | None = None
    state: PartitionState = PartitionState.RUNNING
    state_code: str = ""
    state_text: str = ""
    state_error: UUID | None = None
    resume_at: float | None = None
    probes: int = 0
    lost_from: int | None = None
    unclean_ends: int = 0
    rows_alone: int = 0
    unclean_offset: int | None = None
    suspect_offset: int | None = None
    suspect_receipt: bytes | None = None
    suspect_crashes: int = 0
    has_marked: bool = False
    owner: object | None = None
    released: bool = True
    begins_after: Mapping[int, int] | None = None
    producers_know_at: float | None = None
    stop_at: int | None = None
    locked: bool = False
    rescued: tuple[tuple[int, int], ...] = ()
    rescue_code: str = ""
    rescued_records: dict[int, Record] = field(default_factory=dict)
    open_batch: OpenBatch | None = None
    moves: tuple[tuple[int, int], ...] = ()

    def move(self, offset: int, moment: int) -> None:
        """A person puts the position elsewhere, and fences whoever still runs."""
        if offset < self.next_offset:
            self.open_batch = None
        reach = max(offset, self.next_offset)
        before = (move for move in self.moves if move[1] > reach)
        self.moves = ((moment, self.next_offset), *before)
        self.next_offset, self.epoch = offset, self.epoch + 1
        self.state, self.state_code, self.resume_at = PartitionState.RUNNING, "", None
        self.lost_from = None

    @property
    def done(self) -> frozenset[int]:
        """Offsets at or beyond the position that are through."""
        done = set() if self.open_batch is None else self.open_batch.done
        return frozenset(offset for offset in done if offset >= self.next_offset)


@dataclass(frozen=True, slots=True)
class TrackRow:
    """One ending of one message."""

    partition: int
    offset: int
    arrival: int
    message_id: str
    interface: str
    ended: str


@dataclass(frozen=True, slots=True)
class TryRow:
    """One settled try of a failed message."""

    error: UUID
    number: int
    ended: str
    code: str


@dataclass(frozen=True, slots=True)
class OutRow:
    """One row of the outbox; `due_at` None means at once."""

    outgoing: Outgoing
    due_at: float | None
    state: OutboxState = OutboxState.PENDING


@dataclass(frozen=True, slots=True)
class GapRow:
    """Offsets [start, end) that were passed untried."""

    partition: int
    topic_uuid: str
    start: int
    end: int
    reason: str
    acknowledged: bool = False
