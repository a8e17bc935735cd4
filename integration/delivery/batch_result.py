"""Everything one batch causes, as values: what the repository writes in one commit."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple
from uuid import UUID

from integration.delivery.sending.values import Dispatch
from integration.delivery.tracked import Track
from integration.delivery.unit import OpenError, Unit
from integration.handlers.arrivals import Arrived
from integration.policy.failure import Failure
from integration.policy.states import Ended, ErrorState, PartitionState
from integration.values import Outgoing


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """Counts of a message's tries: settled tries, retries for life, retries since release."""

    attempts: int
    retry_no: int
    spent: int
    crashes: int = 0


class Applied(NamedTuple):
    """A message that was applied under its id: the hash of its content, and where it stands."""

    content: bytes
    topic_uuid: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NewError:
    """A first failure: the row that will hold the payload and the story from now on.

    `retry_by` is whose rule decided about its retries, empty where there was nothing to decide.
    """

    id: UUID
    unit: Unit
    failure: Failure
    state: ErrorState
    counters: Counters
    carrier: str
    delay_seconds: float | None
    retry_by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowChange:
    """A further try of a known failure. `failure` is None when it ended well or was parked."""

    row: OpenError
    state: ErrorState
    ended: Ended
    counters: Counters
    failure: Failure | None = None
    carrier: str = "row"
    delay_seconds: float | None = None
    retry_by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateChange:
    """The partition's new state; `resume_seconds` from now by the database's clock.

    `lost_from` is where a topic ended that had lost what was read of it.
    """

    state: PartitionState
    code: str = ""
    text: str = ""
    error: UUID | None = None
    resume_seconds: float | None = None
    probes: int = 0
    lost_from: int | None = None


RUNNING = StateChange(state=PartitionState.RUNNING)


@dataclass(slots=True)
class BatchResult:
    """One commit. `next_offset` is where the partition stands after it.

    Of a batch that is worked side by side the commit itself finds that out, from what is `closed`.
    """

    next_offset: int
    closed: Sequence[int] | None = None
    """the offsets that are through with this commit; only where a batch is in work side by side"""
    tracks: list[Track] = field(default_factory=list)
    """what is known of each message that ended"""
    strays: list[tuple[int, Track]] = field(default_factory=list)
    """(partition, track) of rows whose own partition is gone: the lowest one works for them"""
    new_errors: list[NewError] = field(default_factory=list)
    changes: list[RowChange] = field(default_factory=list)
    met_again: list[int] = field(default_factory=list)
    """offsets that the position went back over, and that have a row: an open one is as new as what
    is read around it"""
    outgoing: list[Outgoing] = field(default_factory=list)
    seen: list[tuple[str, Applied, bool]] = field(default_factory=list)
    """(message id, the message, whether the id must be new) of applied ones; queues with dedupe
    only"""
    copies: list[tuple[UUID, int]] = field(default_factory=list)
    """(error row, offset of its copy) found on an error queue"""
    state: StateChange | None = None
    logged: tuple[int, int] | None = None
    """first and last offset that got this batch's arrival number"""
    arrivals: list[Arrived] = field(default_factory=list)
    """objects that are there now: what waits for them is due"""
    dispatch: Dispatch | None = None
    """calls made and calls about to be made; sending only"""

    @property
    def parked_rows(self) -> list[OpenError]:
        """The known failures that wait behind an earlier one of their key from now on."""
        return [change.row for change in self.changes if change.state is ErrorState.PARKED]

    @property
    def waits_for_objects(self) -> bool:
        """Return whether a message failed for want of an object, and is tried again."""
        waiting = chain(self.waiting_rows, self.waiting_offsets)
        return next(waiting, None) is not None

    @property
    def waiting_offsets(self) -> Iterator[int]:
        """The offsets of new failures that wait for an object."""
        for new in self.new_errors:
            if new.failure.waits_for is not None and new.state is ErrorState.RETRY:
                yield new.unit.record.offset

    @property
    def waiting_rows(self) -> Iterator[UUID]:
        """The known failures that wait for an object, still or again."""
        for change in self.changes:
            needed = None if change.failure is None else change.failure.waits_for
            if needed is not None and change.state is ErrorState.RETRY:
                yield change.row.id
