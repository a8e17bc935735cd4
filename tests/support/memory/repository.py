"""The in-memory fake of the Repository, held to the contract suite of the real one.

One database may be shared by several ledgers and desks, as by several processes. Handlers write
their effects through the repository's `effect`, which is what the ORM is to the real one.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from threading import get_ident
from typing import Any, Final
from uuid import UUID

import psycopg
from django.db import DatabaseError

from integration.delivery.added import Addition
from integration.delivery.batch_result import BatchResult, StateChange
from integration.delivery.owned import HEAD_HELD, ClosedHead, CopiedHead, Owned
from integration.delivery.ports import LostError, QueueGoneError, nothing
from integration.delivery.reading import RetryMarker
from integration.delivery.sending.values import Past
from integration.delivery.snapshot import QueueSnapshot
from integration.delivery.unit import OpenError, Unit
from integration.policy.states import CLOSED, DUE, OPEN, Ended, ErrorState, PartitionState
from integration.values import ProducersKnow, Record, TopicFacts
from tests.support.memory import added, failures, strict_order
from tests.support.memory.rows import ErrorRow, GapRow
from tests.support.memory.tables import MemoryDatabase
from tests.support.memory.unit_of_work import LOST, MemoryUnitOfWork

RETRY_MARKER_GRACE_SECONDS: Final = 30


class MemoryRepository:
    """See ports.Repository. `effect`, `refuse` and `work` are for the handlers of one run."""

    def __init__(
        self, database: MemoryDatabase, receipt_of: Callable[[int], bytes | None] | None = None
    ) -> None:
        self.database = database
        self._receipt_of = receipt_of or (lambda _: None)
        self.queue = database.queue
        self._open: dict[int, MemoryUnitOfWork] = {}

    def effect(self, value: object, *, orphan: bool = False) -> None:
        """A handler's effect in the open transaction; an orphan fails the next check."""
        self._current().effect(value, orphan=orphan)

    def refuse(self, cause: psycopg.Error) -> None:
        """A handler's statement that fails; when swallowed, the transaction stays spoilt."""
        self._current().refuse(cause)

    def _current(self) -> MemoryUnitOfWork:
        if get_ident() not in self._open:
            raise RuntimeError("effects need an open transaction")
        return self._open[get_ident()]

    @contextmanager
    def work(
        self, owned: Owned, meanwhile: Callable[[], bool] = nothing
    ) -> Iterator[MemoryUnitOfWork]:
        work: MemoryUnitOfWork | None = None
        try:
            work = self._open[get_ident()] = MemoryUnitOfWork(self.database, owned)
            meanwhile()
            yield work
            meanwhile()
            work.commit()
        except (DatabaseError, LostError) as e:
            if work is not None and not work.lost and not isinstance(e, LostError):
                raise
            if work is None or self.database.place(owned).last_batch != work.batch.id:
                raise LostError(str(e)) from e
        finally:
            self._open.pop(get_ident(), None)
            if work is not None:
                self.database.locked -= work.claimed
                place = self.database.place(owned)
                place.locked = place.locked and not work.has_locked

    def draw_arrival(self) -> int:
        self._statement("draw_arrival")
        return next(self.database.arrivals)

    def _statement(self, name: str) -> None:
        if self.database.interrupt(name):
            raise LostError(LOST)

    def head(self, owned: Owned) -> OpenError | ClosedHead | CopiedHead | None:
        self._statement("head")
        row = self._at(owned)
        if row is None:
            return self._copied_head(owned)
        if row.state in CLOSED:
            return ClosedHead(row.id, Ended(row.ended or Ended.DELETED))
        return self._open_error(row)

    def _copied_head(self, owned: Owned) -> ClosedHead | CopiedHead | None:
        if not self.queue.keeps_copies_in_order or owned.state_code != HEAD_HELD:
            return None
        head = self.database.place(owned).state_error
        row = None if head is None else strict_order.copied(self.database, head)
        if row is None:
            return None
        if row.state in CLOSED:
            return ClosedHead(row.id, Ended(row.ended or Ended.DELETED))
        return CopiedHead(row.id)

    def open_copies(self, failures: Sequence[UUID]) -> frozenset[UUID]:
        self._statement("open_copies")
        rows = (strict_order.copied(self.database, failure) for failure in failures)
        return frozenset(row.id for row in rows if row is not None and row.state in OPEN)

    def _at(self, owned: Owned) -> ErrorRow | None:
        return self.database.head_of(owned)

    def rescued(self, owned: Owned, limit: int) -> Sequence[Record]:
        self._statement("rescued")
        until, known = owned.rescued_until or 0, self.database.place(owned).rescued_records
        offsets = [at for at in sorted(known) if owned.next_offset <= at < until]
        return [known[at] for at in offsets[:limit]]

    def failed_between(self, owned: Owned, first: int, last: int) -> Mapping[int, bool]:
        self._statement("failed_between")
        rows = (self.database.told_at(owned, offset) for offset in range(first, last + 1))
        return {row.record.offset: row.state in OPEN for row in rows if row is not None}

    def due_rows(self, owned: Owned, limit: int) -> Sequence[OpenError]:
        self._statement("due_rows")
        by_key = self.queue.keeps_keys_in_order or owned.has_parked
        if by_key and self.queue.strict_error_queue is None and self.database.is_owned(owned):
            self._park_released(owned)
        rows = [row for row in self.database.errors.values() if self._is_due(row, owned)]
        if self.queue.strict_error_queue is not None:
            rows = [row for row in rows if not strict_order.waits(self.database, row)]
        if by_key:
            rows = [row for row in rows if self._has_its_turn(row)]
            if not self.queue.sends and owned.isolate_until is None:
                behind = [follower for row in rows for follower in self._behind(row, owned)]
                rows = list({row.id: row for row in rows + behind}.values())
        rows.sort(key=lambda row: row.arrival)
        return [self._open_error(row) for row in rows[:limit]]

    def _has_its_turn(self, row: ErrorRow) -> bool:
        """In a sequential queue only what is parked keeps the order of its key."""
        keeps_order = self.queue.keeps_keys_in_order or row.parked
        return not keeps_order or self.database.is_first_of_key(row)

    def _park_released(self, owned: Owned) -> None:
        """What was released behind an open failure of its key waits parked."""
        for row in list(self.database.errors.values()):
            is_released = row.state is ErrorState.READY and self._is_due(row, owned)
            is_released = is_released and (self.queue.keeps_keys_in_order or row.parked)
            if is_released and not self.database.is_first_of_key(row):
                self.database.change(row.id, row.version, state=ErrorState.PARKED)

    def _behind(self, row: ErrorRow, owned: Owned) -> Iterator[ErrorRow]:
        """The rows of its key in the same partition that may be tried in one go, itself too."""
        of_key = [
            other
            for other in self.database.open_rows()
            if other.order_key is not None
            and other.order_key == row.order_key
            and other.record.partition == row.record.partition
            and not (
                other.place[:2] == (owned.topic_uuid, owned.partition)
                and self._waits_for_position(other, owned)
            )
        ]
        is_strict = self.queue.strict_error_queue is not None
        for other in sorted(of_key, key=lambda row: row.arrival):
            has_own_turn = is_strict and other.copied_at is not None and other.id != row.id
            if has_own_turn or not self._open_error(other).is_runnable:
                return
            yield other

    def _is_due(self, row: ErrorRow, owned: Owned) -> bool:
        partition = row.record.partition
        stray = owned.is_lowest and partition not in self.database.places
        if partition != owned.partition and not stray:
            return False
        here = row.topic_uuid == owned.topic_uuid and partition == owned.partition
        if here and self._waits_for_position(row, owned):
            return False
        if row.state is ErrorState.RETRY and row.not_before is not None:
            grace = RETRY_MARKER_GRACE_SECONDS if row.carrier == "topic" else 0
            return row.not_before + grace <= self.database.clock.seconds
        return row.state is ErrorState.READY

    def _waits_for_position(self, row: ErrorRow, owned: Owned) -> bool:
        is_ahead = row.record.offset >= owned.next_offset
        return is_ahead and (self.queue.sequential or owned.reads_again(row.record.offset))

    def retry_rows(self, markers: Sequence[RetryMarker]) -> Mapping[UUID, OpenError]:
        self._statement("retry_rows")
        found = {}
        for marker in markers:
            row = self.database.errors.get(marker.error)
            named = row is not None and row.retry_no == marker.retry_no
            keeps_keys = self.queue.keeps_keys_in_order
            if row is not None and keeps_keys and not self.database.is_first_of_key(row):
                continue
            is_due = row is not None and row.state is ErrorState.RETRY and row.carrier == "topic"
            if row is not None and named and is_due:
                found[row.id] = self._open_error(row)
        return found

    def _open_error(self, row: ErrorRow) -> OpenError:
        return failures.open_error(row, self.database.clock.seconds)

    def settle_at_once(self, owned: Owned, batch_result: BatchResult) -> bool | None:
        """The fake has one way to settle: that of `work`."""
        return None

    def past(self, owned: Owned, offsets: Sequence[int] = (), last: int | None = None) -> Past:
        self._statement("past")
        past = self.database.calls.past(owned, offsets)
        return past if last is None else replace(past, last=last)

    def open_keys(self, owned: Owned, keys: Sequence[bytes]) -> Mapping[bytes, int]:
        self._statement("open_keys")
        first: dict[bytes, int] = {}
        for row in sorted(self.database.open_rows(), key=lambda row: row.arrival):
            is_kept = row.parked or self.queue.keeps_keys_in_order
            if is_kept and row.order_key in keys and row.order_key not in first:
                is_here = row.place[:2] == (owned.topic_uuid, owned.partition)
                first[row.order_key] = row.place[2] if is_here else -1
        return first

    def most_parked(self, keys: Sequence[bytes]) -> int:
        self._statement("most_parked")
        rows = self.database.open_rows()
        parked = [r.order_key for r in rows if r.state is ErrorState.PARKED and r.parked]
        most = max((parked.count(key) for key in keys), default=0)
        return min(most, self.queue.failure_thresholds.max_parked + 1)

    def producers_know(self, owned: Owned) -> ProducersKnow | None:
        self._statement("producers_know")
        return added.producers_know(self.database, owned)

    def note_ends(self, owned: Owned, ends: Mapping[int, int]) -> bool:
        self._statement("note_ends")
        return added.note_ends(self.database, owned, ends)

    def has_begun(self, owned: Owned, ends: Mapping[int, int]) -> bool:
        self._statement("has_begun")
        return added.has_begun(self.database, owned, ends)

    def wake_waiting(self, owned: Owned, batch_result: BatchResult) -> None:
        self._statement("wake_waiting")
        self.database.wake_waiting(but=self.database.locked)

    def wake_parked(self) -> None:
        self._statement("wake_parked")
        self.database.wake_parked()

    def wake_missed(self, *, everywhere: bool = False) -> None:
        self._statement("wake_missed")
        self.database.wake_waiting(but=self.database.locked)

    def mark(self, owned: Owned, unit: Unit) -> bool:
        self._statement("mark")
        if not self.database.is_owned(owned):
            return False
        place = self.database.place(owned)
        place.has_marked = True
        if unit.row is None:
            place.suspect_crashes = owned.meet(is_suspect=self.is_suspect(owned, unit))
            place.suspect_offset, place.suspect_receipt = unit.at, self._receipt_of(unit.at)
            return True
        marker: dict[str, Any] = {"state": ErrorState.PROCESSING, "epoch": owned.epoch}
        if self.database.change(unit.row.id, unit.row.version, **marker):
            unit.row = replace(unit.row, version=unit.row.version + 1)
        return True

    def is_suspect(self, owned: Owned, unit: Unit) -> bool:
        at = unit.record.offset
        receipt, is_there = self._receipt_of(at), at == owned.suspect_offset
        return receipt == owned.suspect_receipt and (is_there or receipt is not None)

    def ran_alone(self, owned: Owned, count: int) -> bool:
        self._statement("ran_alone")
        place = self.database.place(owned)
        if not self.database.is_owned(owned):
            return False
        place.rows_alone += count
        if place.rows_alone >= self.queue.batch_size:
            place.rows_alone = place.unclean_ends = 0
        return place.rows_alone == 0

    def unmark(self, owned: Owned, unit: Unit) -> None:
        self._statement("unmark")
        if unit.row is None:
            return
        row = self.database.errors[unit.row.id]
        if row.state is ErrorState.PROCESSING and row.epoch == owned.epoch:
            state = ErrorState(unit.row.state)
            self.database.change(row.id, row.version, state=state, epoch=None)
            unit.row = replace(unit.row, version=row.version + 1)

    def state(self, owned: Owned, change: StateChange, next_offset: int | None = None) -> bool:
        self._statement("state")
        place = self.database.place(owned)
        if not self.database.stands_at(owned):
            return False
        self.database.set_state(place, change)
        if next_offset is not None:
            place.next_offset = next_offset
        return True

    def look(self, owned: Owned) -> None:
        self._statement("look")
        place = self.database.place(owned)
        if self.database.is_owned(owned):
            owned.state, owned.state_code, owned.may_have_head = place.state, place.state_code, True
            resumes = place.resume_at
            owned.due = place.state is PartitionState.RUNNING or (
                resumes is not None and resumes <= self.database.clock.seconds
            )

    def read_stops(self, held: Sequence[Owned]) -> frozenset[int]:
        self._statement("read_stops")
        ours = [owned for owned in held if self.database.stands_at(owned)]
        for owned in ours:
            owned.stop_at = self.database.place(owned).stop_at
        return frozenset(owned.id for owned in ours)

    def pause_at_stops(self, owned: Owned) -> bool:
        self._statement("pause_at_stops")
        return self.database.is_owned(owned) and self.database.pause_at_stops()

    def gap(self, owned: Owned, to_offset: int, reason: str) -> None:
        self._statement("gap")
        if not self.database.is_owned(owned):
            return
        found = GapRow(owned.partition, owned.topic_uuid, owned.next_offset, to_offset, reason)
        for place, gap in enumerate(self.database.gaps):
            if gap.start == found.start and self._is_here(gap, owned) and not gap.acknowledged:
                self.database.gaps[place] = replace(gap, end=max(gap.end, to_offset))
                return
        self.database.gaps.append(found)

    def _is_here(self, gap: GapRow, owned: Owned) -> bool:
        return (gap.partition, gap.topic_uuid) == (owned.partition, owned.topic_uuid)

    def gap_acknowledged(self, owned: Owned) -> int | None:
        self._statement("gap_acknowledged")
        ends = [
            gap.end
            for gap in self.database.gaps
            if gap.acknowledged
            and gap.reason == "EXPIRED"
            and self._is_here(gap, owned)
            and gap.start <= owned.next_offset < gap.end
        ]
        return max(ends, default=None)

    def expire_head(self, owned: Owned, *, passes: bool) -> bool:
        self._statement("expire_head")
        row = self._at(owned)
        if row is None or row.state not in OPEN - {ErrorState.PROCESSING}:
            return False
        if not self.database.is_owned(owned):
            return False
        held: dict[str, Any] = {}
        if passes and row.state in DUE:
            held = {"state": ErrorState.HOLD, "not_before": None, "version": row.version + 1}
        self.database.errors[row.id] = replace(row, expired=True, **held)
        return True

    def add_partitions(self, facts: TopicFacts) -> Addition:
        self._statement("add_partitions")
        return added.add_partitions(self.database, facts)

    def open_errors(self) -> int:
        self._statement("open_errors")
        waiting = [
            row
            for row in self.database.open_rows()
            if row.state is not ErrorState.READY
            and (row.parked or row.state is not ErrorState.PARKED)
        ]
        return min(len(waiting), self.queue.failure_thresholds.max_open_errors + 1)

    def snapshot(self) -> QueueSnapshot:
        self._statement("snapshot")
        if self.database.removed:
            raise QueueGoneError(self.queue.name)
        self.queue = self.database.queue
        return self.queue
