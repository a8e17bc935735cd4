"""The database as one run sees it: transactions, rows, states; see ports.Repository."""

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final
from uuid import UUID

from django.db import DatabaseError, InterfaceError, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from integration.delivery.added import Addition
from integration.delivery.batch_result import BatchResult, StateChange
from integration.delivery.owned import ClosedHead, CopiedHead, Owned
from integration.delivery.ports import LostError, QueueGoneError, nothing
from integration.delivery.reading import RetryMarker
from integration.delivery.sending.values import Past
from integration.delivery.snapshot import QueueSnapshot
from integration.delivery.two_phase import InDoubtError, TwoPhase
from integration.delivery.unit import OpenError, Unit
from integration.models import Queue
from integration.policy.states import OPEN, ErrorState, PartitionState, listed
from integration.store import (
    at_once,
    configuration,
    deliveries,
    dependencies,
    heads,
    jms_receipts,
    key_order,
    partition_lease,
    queue_stops,
    rescues,
    rows,
    second_database,
    strict_order,
    waiting,
)
from integration.store.batch_sessions import BatchSessions
from integration.store.branches import TwoPhaseWork
from integration.store.partition_state import STATE, state_parameters
from integration.store.positions import add_partitions
from integration.store.second_database import SecondTransaction
from integration.store.sessions import (
    alias,
    django_connection,
    execute,
    fetch_all,
    guarded,
    next_arrival,
)
from integration.store.unit_of_work import DatabaseUnitOfWork
from integration.values import ProducersKnow, Record, TopicFacts

MARK_ROW: Final = """
WITH ours AS (
  UPDATE integration_queuepartition SET marked_at = clock_timestamp()
  WHERE id = %s AND epoch = %s RETURNING epoch
), marked AS (
  UPDATE integration_messageerror e SET state = 'PROCESSING', epoch = ours.epoch,
    version = e.version + 1 FROM ours WHERE e.id = %s AND e.version = %s RETURNING 1
)
SELECT EXISTS (SELECT 1 FROM ours), EXISTS (SELECT 1 FROM marked)
"""
UNMARK_ROW: Final = (
    "UPDATE integration_messageerror SET state = %s, epoch = NULL, version = version + 1 "
    "WHERE id = %s AND state = 'PROCESSING' AND epoch = %s"
)
# A gap that nobody has acknowledged grows: one question for a person, however long they take.
GAP: Final = """
WITH here AS (
  SELECT id, topic_uuid FROM integration_queuepartition WHERE id = %(id)s AND epoch = %(epoch)s
), grown AS (
  UPDATE integration_gap g SET to_offset = greatest(g.to_offset, %(to)s) FROM here
  WHERE g.partition_id = here.id AND g.topic_uuid = here.topic_uuid
    AND g.from_offset = %(from)s AND g.acknowledged_at IS NULL RETURNING 1
)
INSERT INTO integration_gap
  (id, partition_id, topic_uuid, from_offset, to_offset, reason, found_at, acknowledged_by)
SELECT %(gap)s, id, topic_uuid, %(from)s, %(to)s, %(reason)s, clock_timestamp(), '' FROM here
WHERE NOT EXISTS (SELECT 1 FROM grown)
"""
FATE: Final = "SELECT pg_xact_status(%s::xid8) = 'committed'"
LAST_BATCH: Final = "SELECT last_batch FROM integration_queuepartition WHERE id = %s"
LOOK: Final = (
    "SELECT state, state_code, CASE state WHEN 'RUNNING' THEN true "
    "WHEN 'WAITING' THEN state_since < clock_timestamp() - interval '5 seconds' "
    "ELSE coalesce(resume_at <= clock_timestamp(), false) END "
    "FROM integration_queuepartition WHERE id = %s AND epoch = %s"
)
ACKNOWLEDGED: Final = (
    "SELECT max(to_offset) FROM integration_gap WHERE partition_id = %s AND topic_uuid = %s AND "
    "from_offset <= %s AND to_offset > %s AND acknowledged_at IS NOT NULL AND reason = 'EXPIRED'"
)
# What was released or replayed is on its way: it counts again when it fails again. Rejects of a
# bulk run, whose topic is the run, say nothing about what the queue reads.
OPEN_COUNT: Final = (
    "SELECT count(*) FROM (SELECT 1 FROM integration_messageerror WHERE queue_id = %s "
    f"AND state IN {listed(OPEN - {ErrorState.READY})} AND NOT {key_order.WAS_RELEASED} "
    "AND topic_uuid NOT IN (SELECT id::text FROM integration_bulkrun) LIMIT %s) open"
)


class DatabaseRepository:
    """See ports.Repository. One per run; uses Django's connection, which the handlers use too.

    Each thread has a connection of its own; the run's is that of the thread that makes this.
    """

    def __init__(
        self,
        queue: QueueSnapshot,
        receipt_of: jms_receipts.ReceiptOf | None = None,
        two_phase: TwoPhase | None = None,
    ) -> None:
        self.queue = queue
        self._receipt_of = receipt_of
        self._two_phase = two_phase
        self._sessions = BatchSessions()

    @contextmanager
    def work(
        self, owned: Owned, meanwhile: Callable[[], bool] = nothing
    ) -> Iterator[DatabaseUnitOfWork]:
        connection = django_connection()
        work: DatabaseUnitOfWork | None = None
        try:
            self._sessions.record(owned, self.queue)
            with (
                waiting.filled(connection.connection, meanwhile),
                second_database.beside(self.queue) as second,
                transaction.atomic(using=alias(), durable=True),
            ):
                work = self._begun(connection, owned, second)
                yield work
                work.end()
        except (DatabaseError, InterfaceError, LostError) as e:
            raw = None if work is None else work.raw
            if not isinstance(e, LostError) and raw is not None and not raw.closed:
                raise
            connection.close()
            if isinstance(e, InDoubtError):
                raise
            if work is None or not work.settled or not self._committed(owned, work):
                raise LostError(str(e).strip()) from e

    def _begun(
        self, connection: BaseDatabaseWrapper, owned: Owned, second: SecondTransaction
    ) -> DatabaseUnitOfWork:
        if self._two_phase is not None and self.queue.two_phase:
            return TwoPhaseWork(connection, self.queue, owned, self._two_phase, second)
        work = DatabaseUnitOfWork(connection, self.queue, owned)
        work.receipt_of = self._receipt_of
        return work

    def _committed(self, owned: Owned, work: DatabaseUnitOfWork) -> bool:
        """The commit's answer got lost: the partition row tells whether it happened.

        Or the transaction's own number, where others write that row as well.
        """
        try:
            if work.number:
                return fetch_all(FATE, [work.number.decode()]) == [(True,)]
            return fetch_all(LAST_BATCH, [owned.id]) == [(work.batch,)]
        except (DatabaseError, InterfaceError):
            return False

    def draw_arrival(self) -> int:
        with guarded():
            return next_arrival()

    def _all(self, sql: str, parameters: Any) -> list[tuple[Any, ...]]:
        """Every row of a statement between batches."""
        with guarded():
            return fetch_all(sql, parameters)

    def _count(self, sql: str, parameters: Any) -> int:
        """Count the rows that a statement between batches changed."""
        with guarded():
            return execute(sql, parameters)

    def head(self, owned: Owned) -> OpenError | ClosedHead | CopiedHead | None:
        return heads.find(self._all, self.queue, owned)

    def open_copies(self, failures: Sequence[UUID]) -> frozenset[UUID]:
        open_ones = self._all(strict_order.OPEN_COPIES, [list(failures), self.queue.id])
        return frozenset(id_ for (id_,) in open_ones)

    def rescued(self, owned: Owned, limit: int) -> Sequence[Record]:
        return [
            rescues.record(owned.partition, row) for row in self._all(*rescues.read(owned, limit))
        ]

    def failed_between(self, owned: Owned, first: int, last: int) -> Mapping[int, bool]:
        between = [owned.id, self.queue.id, owned.topic_uuid, owned.partition, first, last]
        return dict(self._all(heads.FAILED_BETWEEN, between))

    def due_rows(self, owned: Owned, limit: int) -> Sequence[OpenError]:
        parameters = rows.due_parameters(self.queue, owned, limit)
        is_strict = self.queue.strict_error_queue is not None
        is_by_key = self.queue.keeps_keys_in_order or owned.has_parked
        if is_by_key and not is_strict:
            due = self._due_by_key(parameters)
        else:
            due = self._all(rows.DUE_IN_TURN if is_strict else rows.DUE, parameters)
        if owned.is_lowest and not due and not is_strict:
            due = self._all(rows.DUE_OF_NOBODY, parameters)
        first = [rows.open_error(row) for row in due]
        if not is_by_key or self.queue.sends:
            return first
        return self._with_followers(owned, first, limit)

    def _due_by_key(self, parameters: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        """The first of each key. What was released behind one is parked and looked at no more."""
        keyed = self.queue.keeps_keys_in_order
        while True:
            due = self._all(rows.DUE_BY_KEY if keyed else rows.DUE_BESIDE_PARKED, parameters)
            first = [row for row in due if row[-1]]
            if len(first) == len(due) or not self._park_released(parameters):
                return first

    def _park_released(self, parameters: Mapping[str, Any]) -> int:
        """Park what was released behind an open failure of its key; return how many."""
        with guarded(), transaction.atomic(using=alias()):
            parked = [id_ for (id_,) in fetch_all(rows.PARK_RELEASED, parameters)]
            if parked:
                key_order.wake(execute, parked)
        return len(parked)

    @property
    def _keeps_keys(self) -> bool:
        """Return whether what is parked stays so: in a sequential queue a person wanted it."""
        return self.queue.keeps_keys_in_order or self.queue.sequential

    def _with_followers(
        self, owned: Owned, first: list[OpenError], limit: int
    ) -> Sequence[OpenError]:
        """The first of each key, and behind it what may be tried once that is through."""
        keys = [row.order_key for row in first if row.order_key is not None]
        if not keys or len(first) >= limit or owned.isolate_until is not None:
            return first
        # The first one of each is among them.
        each, in_all = limit // len(keys) + 1, limit + len(keys)
        here = [owned.partition, owned.topic_uuid, owned.next_offset, rows.turn(self.queue, owned)]
        behind = self._all(rows.OF_KEYS, [keys, self.queue.id, *here, each, in_all])
        waiting: set[bytes | None] = set()
        known, together = {row.id for row in first}, list(first)
        is_strict = self.queue.strict_error_queue is not None
        for row in map(rows.open_error, behind):
            if row.order_key not in waiting and row.id not in known:
                # What was copied to a strict error queue has a turn of its own: asked for anew.
                follows = row.is_runnable and not (is_strict and row.copied)
                waiting |= set() if follows else {row.order_key}
                together += [row] if follows else []
        together.sort(key=lambda row: (row.arrival_batch or 0, row.arrival_index or 0))
        return together[:limit]

    def retry_rows(self, markers: Sequence[RetryMarker]) -> Mapping[UUID, OpenError]:
        ids, numbers = [t.error for t in markers], [t.retry_no for t in markers]
        of_queue = [self.queue.id, self.queue.keeps_keys_in_order]
        due = self._all(rows.RETRY_ROWS, [ids, numbers, *of_queue])
        return {row[0]: rows.open_error(row) for row in due}

    def settle_at_once(self, owned: Owned, batch_result: BatchResult) -> bool | None:
        if not at_once.is_ordinary(batch_result, owned):
            return None
        with guarded():
            self._sessions.record(owned, self.queue)
            raw: Any = django_connection().connection
            return at_once.settle(raw.execute, self.queue, owned, batch_result)

    def past(self, owned: Owned, offsets: Sequence[int] = (), last: int | None = None) -> Past:
        parameters = deliveries.parameters_of(self.queue.id, owned, offsets)
        self._count(deliveries.PASSED_OVER, parameters)
        past = deliveries.past(self._all, parameters, last)
        if past.doubts or past.doubted_errors:
            self._count(deliveries.FREE_PROBES, parameters)
        return past

    def open_keys(self, owned: Owned, keys: Sequence[bytes]) -> Mapping[bytes, int]:
        here = [owned.topic_uuid, owned.partition]
        of_queue = [self.queue.id, self.queue.keeps_keys_in_order]
        open_keys = self._all(key_order.OPEN_KEYS, [*here, list(keys), *of_queue])
        return {bytes(key): offset for key, offset in open_keys}

    def most_parked(self, keys: Sequence[bytes]) -> int:
        beyond = self.queue.failure_thresholds.max_parked + 1
        return int(self._all(key_order.MOST_PARKED, [list(keys), self.queue.id, beyond])[0][0])

    def producers_know(self, owned: Owned) -> ProducersKnow | None:
        found = self._all(key_order.PRODUCERS_KNOW, [owned.id])
        return None if not found else ProducersKnow(*found[0])

    def note_ends(self, owned: Owned, ends: Mapping[int, int]) -> bool:
        noted = [list(ends), list(ends.values()), owned.id, owned.epoch]
        return self._count(key_order.NOTE_ENDS, noted) == 1

    def has_begun(self, owned: Owned, ends: Mapping[int, int]) -> bool:
        here = [owned.id, owned.epoch, list(ends), list(ends.values())]
        return self._count(key_order.BEGIN, here) == 1

    def wake_waiting(self, owned: Owned, batch_result: BatchResult) -> None:
        if batch_result.arrivals:
            dependencies.wake(batch_result.arrivals)
        if batch_result.waits_for_objects:
            rows_, offsets = list(batch_result.waiting_rows), list(batch_result.waiting_offsets)
            where = (self.queue.id, owned.topic_uuid, owned.partition)
            dependencies.look_again(dependencies.Waiting(rows_, *where, offsets))

    def wake_missed(self, *, everywhere: bool = False) -> None:
        if everywhere:
            dependencies.wake_all()
        else:
            dependencies.wake_missed(self.queue.id)

    def wake_parked(self) -> None:
        # Where keys keep their order only a few can be behind nothing; else all are.
        while self._count(key_order.WAKE_SOME, [self.queue.id, self._keeps_keys]):
            if self._keeps_keys:
                return

    def mark(self, owned: Owned, unit: Unit) -> bool:
        if unit.row is None:
            crashes = owned.meet(is_suspect=self.is_suspect(owned, unit))
            marker = [crashes, unit.at, self._receipt(unit), owned.id, owned.epoch]
            return self._count(partition_lease.MARK_OFFSET, marker) == 1
        key = [owned.id, owned.epoch, unit.row.id, unit.row.version]
        [(is_ours, is_marked)] = self._all(MARK_ROW, key)
        if is_marked:
            unit.row = replace(unit.row, version=unit.row.version + 1)
        return bool(is_ours)

    def is_suspect(self, owned: Owned, unit: Unit) -> bool:
        receipt, is_there = self._receipt(unit), unit.record.offset == owned.suspect_offset
        return receipt == owned.suspect_receipt and (is_there or receipt is not None)

    def _receipt(self, unit: Unit) -> bytes | None:
        return None if self._receipt_of is None else self._receipt_of(unit.record.offset)

    def ran_alone(self, owned: Owned, count: int) -> bool:
        counted = [count, self.queue.batch_size, owned.id, owned.epoch]
        return self._all(partition_lease.RAN_ALONE, counted) == [(True,)]

    def unmark(self, owned: Owned, unit: Unit) -> None:
        if unit.row is None:
            return
        if self._count(UNMARK_ROW, [unit.row.state, unit.row.id, owned.epoch]) == 1:
            unit.row = replace(unit.row, version=unit.row.version + 1)

    def state(self, owned: Owned, change: StateChange, next_offset: int | None = None) -> bool:
        parameters = state_parameters(owned, change, uuid.uuid4())
        parameters |= {"next": next_offset, "old": owned.next_offset}
        return self._count(STATE, parameters) == 1

    def look(self, owned: Owned) -> None:
        states = self._all(LOOK, [owned.id, owned.epoch])
        if states:
            state, owned.state_code, owned.due = states[0]
            owned.state = PartitionState(state)
            owned.may_have_head = True

    def read_stops(self, held: Sequence[Owned]) -> frozenset[int]:
        if not held:
            return frozenset()
        rows_ = self._all(queue_stops.READ, queue_stops.parameters_of(held))
        return queue_stops.read(rows_, held)

    def pause_at_stops(self, owned: Owned) -> bool:
        with guarded():
            return queue_stops.pause(self.queue.id, owned)

    def gap(self, owned: Owned, to_offset: int, reason: str) -> None:
        gap = {"gap": uuid.uuid4(), "from": owned.next_offset, "to": to_offset, "reason": reason}
        self._count(GAP, gap | {"id": owned.id, "epoch": owned.epoch})

    def gap_acknowledged(self, owned: Owned) -> int | None:
        at = [owned.next_offset, owned.next_offset]
        gaps = self._all(ACKNOWLEDGED, [owned.id, owned.topic_uuid, *at])
        return None if gaps[0][0] is None else int(gaps[0][0])

    def expire_head(self, owned: Owned, *, passes: bool) -> bool:
        return self._count(heads.EXPIRE, [passes, owned.id, owned.epoch]) == 1

    def add_partitions(self, facts: TopicFacts) -> Addition:
        return add_partitions(self.queue.id, facts)

    def open_errors(self) -> int:
        counted = self._all(
            OPEN_COUNT, [self.queue.id, self.queue.failure_thresholds.max_open_errors + 1]
        )
        return int(counted[0][0])

    def snapshot(self) -> QueueSnapshot:
        with guarded():
            try:
                self.queue = configuration.snapshot(self.queue.id, worker=self.queue.worker)
            except Queue.DoesNotExist:
                raise QueueGoneError(self.queue.name) from None
        return self.queue
