"""What the in-memory fakes share: the clock, the tables of one queue, and how a batch changes them.

Rows are never altered in place unless they are a partition's; a batch result is applied at once,
when nothing can fail any more, so that there is nothing to undo.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, Final
from uuid import UUID

from django.db import IntegrityError

from integration.delivery.batch_result import (
    Applied,
    BatchResult,
    NewError,
    RowChange,
    StateChange,
)
from integration.delivery.endings import of_known_rows
from integration.delivery.owned import OpenBatch, Owned
from integration.delivery.snapshot import QueueSnapshot
from integration.policy.dependency import object_hash
from integration.policy.states import (
    CLOSED,
    OPEN,
    ErrorState,
    OutboxKind,
    OutboxState,
    PartitionState,
)
from tests.support.memory import failures
from tests.support.memory.clock import MemoryClock
from tests.support.memory.rows import ErrorRow, GapRow, OutRow, PlaceRow, TrackRow, TryRow
from tests.support.memory.sending import MemoryCalls, MemoryCircuits

TOPIC_UUID: Final = "fake-topic"


def _nobody_else() -> None:
    raise AssertionError("a row is locked, and there are no other threads")


@dataclass(slots=True)
class Batch:
    """What one transaction will have caused once it commits."""

    id: UUID
    arrival: int
    effects: list[Any] = field(default_factory=list)
    batch_result: BatchResult | None = None


class MemoryDatabase:
    """The tables of one queue, committed. Single-threaded; other actors act between statements.

    `interrupt` is told the name of every statement before it runs ("settle", "commit", "answer",
    …) and returns true to break the session there: a broken "answer" is a commit that happened
    although nobody was told. `others_first` lets other threads go on: a row is locked.
    """

    def __init__(
        self,
        queue: QueueSnapshot,
        positions: Mapping[int, int],
        *,
        topic_uuid: str = TOPIC_UUID,
        clock: MemoryClock | None = None,
    ) -> None:
        self.queue = queue
        self.clock = clock or MemoryClock()
        self.places = {
            partition: PlaceRow(
                id=1000 + partition,
                partition=partition,
                topic_uuid=topic_uuid,
                next_offset=offset,
            )
            for partition, offset in positions.items()
        }
        self.errors: dict[UUID, ErrorRow] = {}
        self.tries: list[TryRow] = []
        self.tracks: list[TrackRow] = []
        self.outbox: list[OutRow] = []
        self.seen: dict[str, Applied] = {}
        self.gaps: list[GapRow] = []
        self.circuits = MemoryCircuits(self.clock)
        self.calls = MemoryCalls(self.errors, self.circuits)
        self.logged: list[tuple[int, int, int, int]] = []
        self.effects: list[Any] = []
        self.arrivals = count(1)
        # What comes after what, also where the clock stands still.
        self.moments = count(1)
        self.locked: set[UUID] = set()
        self.arrived: dict[bytes, int] = {}
        self.moves: set[tuple[ErrorState, ErrorState]] = set()
        self.removed = False
        self.runs: list[object] = []
        self.help_wanted = False
        self.rescue_limit_bytes = 2**30
        self.error_queue: MemoryDatabase | None = None
        self.feeders: list[MemoryDatabase] = []
        self.interrupt: Callable[[str], bool] = lambda _: False
        self.others_first: Callable[[], None] = _nobody_else

    def remove(self) -> None:
        """Somebody deletes the queue: whoever still works on it owns nothing any more."""
        self.removed = True
        self.errors.clear()

    def place(self, owned: Owned) -> PlaceRow:
        return self.places[owned.partition]

    def is_owned(self, owned: Owned) -> bool:
        """The fence: whether this epoch is still the partition's. Everything written asks."""
        return not self.removed and self.place(owned).epoch == owned.epoch

    def stands_at(self, owned: Owned) -> bool:
        """The fence of everything that moves: the epoch, and the position it was read with."""
        if owned.in_work is not None:
            # Other threads move it meanwhile, within the batch.
            at = self.place(owned).next_offset
            return self.is_owned(owned) and owned.in_work.first <= at <= owned.in_work.end
        return self.is_owned(owned) and self.place(owned).next_offset == owned.next_offset

    def keeps_stop(self, owned: Owned, next_offset: int) -> bool:
        """The fence of a commit: it takes no position beyond a person's stop either."""
        if not self.stands_at(owned):
            return False
        place = self.place(owned)
        return place.stop_at is None or next_offset <= max(place.stop_at, place.next_offset)

    def pause_at_stops(self) -> bool:
        stops = [place for place in self.places.values() if place.stop_at is not None]
        is_over = all(place.next_offset >= (place.stop_at or 0) for place in stops)
        if not stops or not is_over or self.queue.paused:
            return False
        self.queue = replace(self.queue, paused=True, mark=(self.queue.mark or 0) + 1)
        return True

    def error_at(self, topic_uuid: str, partition: int, offset: int) -> ErrorRow | None:
        wanted = (topic_uuid, partition, offset)
        return next((row for row in self.errors.values() if row.place == wanted), None)

    def head_of(self, owned: Owned) -> ErrorRow | None:
        return self.told_at(owned, owned.next_offset)

    def told_at(self, owned: Owned, offset: int) -> ErrorRow | None:
        """The row there, unless it was closed before a person moved the position back over it."""
        row = self.error_at(owned.topic_uuid, owned.partition, offset)
        closed_at = None if row is None else row.closed_at
        if closed_at is None:
            return row
        moves = self.place(owned).moves
        is_read_again = any(closed_at < at and offset < until for at, until in moves)
        return None if is_read_again else row

    def change(self, error: UUID, version: int, **values: Any) -> bool:
        """Compare-and-set of one row, as people and the engine do it; false when it moved on.

        A row that a transaction has claimed cannot be changed by others: false as well.
        """
        row = self.errors[error]
        if row.version != version or error in self.locked:
            return False
        self._store(replace(row, version=version + 1, **values))
        if self.errors[error].state in CLOSED:
            self.wake_parked()
        return True

    def _store(self, row: ErrorRow) -> None:
        known = self.errors.get(row.id)
        if known is not None and known.state is not row.state:
            self.moves.add((known.state, row.state))
        if row.state is ErrorState.RETRY and row.not_before is None:
            raise IntegrityError("retry_has_a_time")
        closed_at = None if row.state in OPEN else row.closed_at or next(self.moments)
        self.errors[row.id] = replace(row, closed_at=closed_at)

    def open_rows(self) -> list[ErrorRow]:
        return [row for row in self.errors.values() if row.state in OPEN]

    def is_first_of_key(self, row: ErrorRow) -> bool:
        """Whether nothing that arrived before it is open under its key."""
        return row.order_key is None or not any(
            other.order_key == row.order_key and other.arrival < row.arrival
            for other in self.open_rows()
        )

    def wake_parked(self) -> None:
        """Make due what is parked behind nothing; with every commit, as nothing is slow here."""
        for row in self.open_rows():
            keeps_keys = self.queue.keeps_keys_in_order or self.queue.sequential
            is_free = not keeps_keys or self.is_first_of_key(row)
            if row.state is ErrorState.PARKED and is_free:
                now = self.clock.seconds
                due = {"state": ErrorState.RETRY, "not_before": now, "budget_since": now}
                self._store(replace(row, version=row.version + 1, **due))

    def wake_waiting(self, *, but: Collection[UUID] = ()) -> None:
        """Make due what waits for an object that has come, once for each time it came."""
        for row in self.open_rows():
            waits = row.not_before is not None and row.not_before > self.clock.seconds
            came = None if row.waits_for is None else self.arrived.get(row.waits_for)
            is_news = came is not None and came != row.woken_by
            if row.state is ErrorState.RETRY and waits and is_news and row.id not in but:
                due = {"not_before": self.clock.seconds, "carrier": "row", "woken_by": came}
                self._store(replace(row, version=row.version + 1, **due))
                self.cancel_retry_markers(row.id)
                for place in self.places.values():
                    if place.state is PartitionState.BACKOFF and place.state_error == row.id:
                        place.resume_at = self.clock.seconds

    def feed(self, error_queue: "MemoryDatabase") -> None:
        """Send copies to that error queue: one PostgreSQL, so one clock and one sequence too."""
        self.error_queue, self.clock = error_queue, error_queue.clock
        self.arrivals = error_queue.arrivals
        error_queue.feeders.append(self)

    def set_state(self, place: PlaceRow, change: StateChange) -> None:
        if change.state is PartitionState.BACKOFF and change.resume_seconds is None:
            raise IntegrityError("backoff_has_an_end")
        place.state, place.state_code = change.state, change.code
        place.state_text, place.state_error = change.text, change.error
        place.resume_at = self._from_now(change.resume_seconds)
        place.probes = change.probes
        ends = [end for end in (place.lost_from, change.lost_from) if end is not None]
        place.lost_from = min(ends, default=None)

    def _from_now(self, seconds: float | None) -> float | None:
        return None if seconds is None else self.clock.seconds + seconds

    def commit(self, owned: Owned, batch: Batch) -> None:
        """Everything the batch caused, at once."""
        batch_result = batch.batch_result
        if batch_result is None:
            return
        place = self.place(owned)
        self.effects += batch.effects
        self.tracks += [
            TrackRow(owned.partition, track[0], batch.arrival, *track[1:4])
            for track in batch_result.tracks
        ]
        self.tracks += [
            TrackRow(partition, track[0], batch.arrival, *track[1:4])
            for partition, track in batch_result.strays
        ]
        for offset in batch_result.met_again:
            self._renumber_met(place, offset, batch.arrival)
        copied = {row.error for row in batch_result.outgoing if row.kind == OutboxKind.COPY}
        known = {
            new.id: self._fail(place, new, (batch.arrival, new.id in copied))
            for new in batch_result.new_errors
        }
        for change in batch_result.changes:
            self._change(change, copied=change.row.id in copied)
        self.wake_parked()
        came = [object_hash(o.kind, key) for o in batch_result.arrivals for key in o.keys]
        self.arrived |= dict.fromkeys(came, batch.arrival)
        for message_id, applied, _ in batch_result.seen:
            self.seen.setdefault(message_id, applied)
        self.outbox += [
            OutRow(row, self._from_now(row.delay_seconds))
            for row in of_known_rows(batch_result.outgoing, known)
        ]
        for failure, offset in batch_result.copies:
            for rows in (feeder.errors for feeder in self.feeders if failure in feeder.errors):
                rows[failure] = replace(rows[failure], copy_offset=offset)
        self._log(owned, batch, batch_result)
        self._advance(owned, batch, batch_result)

    def _log(self, owned: Owned, batch: Batch, batch_result: BatchResult) -> None:
        whole = owned.in_work
        logged = batch_result.logged if whole is None else (whole.first, whole.until - 1)
        log = () if logged is None else ((batch.arrival, owned.partition, *logged),)
        self.logged += [one for one in log if one not in self.logged]

    def _fail(self, place: PlaceRow, new: NewError, extra: tuple[int, bool]) -> UUID | None:
        """A first failure, or a closed row met again after a rewind: then it is opened again.

        Returns the row's id; None where it is open already.
        """
        arrival, copied = extra
        record, now = new.unit.record, self.clock.seconds
        known = self.error_at(place.topic_uuid, record.partition, record.offset)
        if known is not None and known.state in OPEN:
            return None
        if known is None:
            row = failures.new_row(new, place.topic_uuid, arrival, now)
        else:
            row = failures.reopened(known, new, arrival, now)
        row = replace(row, copied_at=now if copied else None, copy_offset=None)
        self._store(replace(row, failed_at=next(self.moments)))
        self._renumber_later(row.id)
        self._tried(row.id, row.attempts, new.state, new.failure.code)
        return row.id

    def _renumber_met(self, place: PlaceRow, offset: int, arrival: int) -> None:
        row = self.error_at(place.topic_uuid, place.partition, offset)
        if row is not None and row.state in OPEN:
            self._store(replace(row, arrival=(arrival, offset)))
            self._renumber_later(row.id)

    def _renumber_later(self, id_: UUID) -> None:
        """Open rows behind this one in the log that came earlier: the position went back."""
        row = self.errors[id_]
        for other in self.open_rows():
            of_key = other.order_key is not None and other.order_key == row.order_key
            is_behind = other.place[:2] == row.place[:2] and other.place[2] > row.place[2]
            keeps_keys = self.queue.keeps_keys_in_order or self.queue.sequential
            if keeps_keys and of_key and is_behind and other.arrival[0] < row.arrival[0]:
                self._store(replace(other, arrival=(row.arrival[0], other.arrival[1])))

    def _change(self, change: RowChange, *, copied: bool) -> None:
        known = self.errors[change.row.id]
        if known.version != change.row.version:
            return
        row = failures.changed(known, change, self.clock.seconds)
        if copied:
            row = replace(row, copied_at=self.clock.seconds)
        self._store(row)
        code = "" if change.failure is None else change.failure.code
        self._tried(row.id, row.attempts, change.ended, code)
        if change.row.carrier == "topic":
            self.cancel_retry_markers(row.id)

    def _tried(self, error: UUID, number: int, ended: str, code: str) -> None:
        self.tries.append(TryRow(error, number, ended, code))

    def cancel_retry_markers(self, error: UUID) -> None:
        """Retry markers not yet sent would only be counted as stale."""
        for place, row in enumerate(self.outbox):
            mine = row.outgoing.error == error and row.outgoing.kind == OutboxKind.RETRY_MARKER
            if mine and row.state is OutboxState.PENDING:
                self.outbox[place] = replace(row, state=OutboxState.CANCELLED)

    def _advance(self, owned: Owned, batch: Batch, batch_result: BatchResult) -> None:
        place = self.place(owned)
        if batch_result.dispatch is not None:
            self.calls.write(batch_result.dispatch, owned, place.stop_at)
        place.last_batch = batch.id
        if owned.in_work is None or batch_result.closed is None:
            place.next_offset = batch_result.next_offset
        else:
            self._close(place, owned.in_work, batch_result.closed)
        suspect = place.suspect_offset
        if owned.isolate_until is not None and suspect is not None and suspect < place.next_offset:
            place.suspect_offset, place.suspect_crashes = None, 0
        if batch_result.state is not None:
            self.set_state(place, batch_result.state)

    def _close(self, place: PlaceRow, in_work: OpenBatch, closed: Collection[int]) -> None:
        """Add what is through to what others have closed; the lowest open is the position."""
        if place.open_batch is None or place.open_batch.arrival != in_work.arrival:
            known = {"first": in_work.first, "until": in_work.until}
            place.open_batch = OpenBatch(arrival=in_work.arrival, **known)
        place.open_batch.offsets = in_work.offsets
        place.next_offset = place.open_batch.close(closed)
