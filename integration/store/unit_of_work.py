"""One transaction of the engine on Django's connection: savepoints, checks, the batch result."""

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final
from uuid import UUID

from django.db import OperationalError
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg import errors as pg

from integration.delivery.batch_result import Applied, BatchResult
from integration.delivery.endings import of_known_rows
from integration.delivery.owned import OpenBatch, Owned
from integration.delivery.snapshot import QueueSnapshot
from integration.policy.states import OPEN_SQL, ErrorState, OutboxKind
from integration.store import (
    deliveries,
    dependencies,
    jms_receipts,
    key_order,
    outbox,
    rows,
    tracks,
)
from integration.store.open_transaction import BEGIN, OpenTransaction
from integration.store.partition_state import STATE, state_parameters
from integration.store.queue_stops import KEEPS_STOP

BEGIN_WITH_ARRIVAL: Final = BEGIN + b"; SELECT nextval('integration_arrival')"
# Of a batch that is worked side by side the number is known. Which transaction this is, is not to
# be read off the partition's row afterwards: others have written it since.
BEGIN_BESIDE: Final = BEGIN + b"; SELECT pg_current_xact_id()"

# The fence: no row comes back when the epoch or the position is no longer this run's, or when a
# person wants the partition to stop before the position it would have.
_ADVANCE: Final = f"""
WITH fenced AS (
  UPDATE integration_queuepartition SET next_offset = %s, last_batch = %s,
    progressed_at = clock_timestamp()
  WHERE id = %s AND epoch = %s AND next_offset = %s AND {KEEPS_STOP} RETURNING id
), logged AS (
  INSERT INTO integration_batchlog
    (number, partition_id, topic_uuid, from_offset, to_offset, committed_at)
  SELECT %s, id, %s, %s, %s, clock_timestamp() FROM fenced WHERE %s
)"""
_IS_FENCED: Final = "\nSELECT count(*) FROM fenced"
ADVANCE: Final = _ADVANCE + _IS_FENCED
ADVANCE_WITH_TRACK: Final = f"{_ADVANCE}, tracked AS ({tracks.INSERT_FENCED}){_IS_FENCED}"
# The same for a part of a batch that is worked side by side. The row is read as the last commit has
# left it; the position is the lowest offset that is open then, and below it none is.
CLOSE: Final = f"""
WITH fenced AS (
  UPDATE integration_queuepartition p SET
    (next_offset, done_offsets, open_from, open_until, open_arrival) = (
      SELECT n.at,
        ARRAY(SELECT d.at FROM unnest(b.done) d (at) WHERE d.at >= n.at AND n.at < %(until)s),
        CASE WHEN n.at < %(until)s THEN %(from)s::bigint END,
        CASE WHEN n.at < %(until)s THEN %(until)s::bigint END,
        CASE WHEN n.at < %(until)s THEN %(arrival)s::bigint END
      FROM (SELECT CASE WHEN p.open_arrival = %(arrival)s THEN p.done_offsets ELSE '{{}}' END
          || %(closed)s::bigint[] AS done) b
      CROSS JOIN LATERAL (SELECT coalesce(min(o.at), %(end)s) AS at FROM (
        SELECT a.at FROM unnest(%(offsets)s::bigint[]) a (at) WHERE a.at >= p.next_offset
        EXCEPT SELECT unnest(b.done)) o (at)) n),
    last_batch = %(batch)s, progressed_at = clock_timestamp()
  WHERE id = %(id)s AND epoch = %(epoch)s AND next_offset BETWEEN %(from)s AND %(end)s
    AND {KEEPS_STOP.replace("%s", "%(last)s")}
  RETURNING id, next_offset
), logged AS (
  INSERT INTO integration_batchlog
    (number, partition_id, topic_uuid, from_offset, to_offset, committed_at, ended_at)
  SELECT %(arrival)s, id, %(uuid)s, %(from)s, %(until)s - 1, clock_timestamp(), clock_timestamp()
  FROM fenced
  ON CONFLICT (number) DO UPDATE SET ended_at = excluded.ended_at
)
SELECT next_offset FROM fenced
"""
CANCEL_RETRY_MARKERS: Final = (
    "UPDATE integration_outboxrow SET state = 'CANCELLED' "
    "WHERE error = ANY(%s) AND kind = 'TICKET' AND state = 'PENDING'"
)
APPLIED_IDS: Final = (
    'SELECT message_id, content_hash, topic_uuid, partition, "offset" FROM integration_seenmessage '
    "WHERE queue_id = %s AND message_id = ANY(%s)"
)
OPEN_IDS: Final = (
    "SELECT message_id, payload FROM integration_messageerror "
    "WHERE queue_id = %s AND message_id = ANY(%s) "
    f"AND state IN {OPEN_SQL}"
)
# A copy whose row is gone by now passes without a link.
LINK_COPIES: Final = (
    "UPDATE integration_messageerror e SET copy_offset = v.at "
    "FROM unnest(%s::uuid[], %s::bigint[]) v (id, at), integration_queue q "
    "WHERE e.id = v.id AND e.copied_at IS NOT NULL "
    "AND q.id = e.queue_id AND q.error_queue_id = %s"
)
REMEMBER_IDS: Final = (
    "INSERT INTO integration_seenmessage "
    '(queue_id, message_id, content_hash, topic_uuid, partition, "offset", seen_at) '
    "SELECT %s, v.*, clock_timestamp() "
    "FROM unnest(%s::text[], %s::bytea[], %s::text[], %s::int[], %s::bigint[]) v "
    "ON CONFLICT (queue_id, message_id) DO NOTHING RETURNING message_id"
)
# The other one has committed since this transaction looked: it is tried again, and sees that.
APPLIED_MEANWHILE: Final = "A repetition was applied in another partition at the same time."


class DatabaseUnitOfWork(OpenTransaction):
    """See ports.Work. Talks to psycopg directly: Django's wrapper costs more than savepoints do."""

    receipt_of: jms_receipts.ReceiptOf | None = None

    def __init__(self, connection: BaseDatabaseWrapper, queue: QueueSnapshot, owned: Owned) -> None:
        super().__init__(connection)
        self.queue = queue
        self.owned = owned
        self.batch = uuid.uuid4()
        self.abandoned = False
        self.settled = False
        self.number = b""
        self.arrival = self._begin()

    def _begin(self) -> int:
        """Open the transaction; returns its arrival number."""
        if self.owned.in_work is None:
            return int(self.frame(BEGIN_WITH_ARRIVAL).get_value(0, 0) or b"0")
        self.number = self.frame(BEGIN_BESIDE).get_value(0, 0) or b""
        return self.owned.in_work.arrival

    def _run(self, sql: str, parameters: Any = None) -> Any:
        with self.connection.wrap_database_errors:
            return self.raw.execute(sql, parameters)

    def abandon(self) -> None:
        self.abandoned = True
        super().abandon()

    def end(self) -> None:
        """Called at the end of the block: effects without their position are rolled back."""
        if not self.settled:
            self.abandon()

    def seen(self, ids: Sequence[str]) -> Mapping[str, frozenset[bytes]]:
        hashes: dict[str, frozenset[bytes]] = {}
        for id_, value in self._run(OPEN_IDS, [self.queue.id, list(ids)]).fetchall():
            own = self.queue.hash_of(None if value is None else bytes(value))
            hashes[id_] = hashes.get(id_, frozenset()) | {own}
        for id_, first in self.applied(ids).items():
            hashes[id_] = hashes.get(id_, frozenset()) | {first.content}
        return hashes

    def applied(self, ids: Sequence[str]) -> Mapping[str, Applied]:
        rows_ = self._run(APPLIED_IDS, [self.queue.id, list(ids)]).fetchall()
        return {id_: Applied(bytes(content), *place) for id_, content, *place in rows_}

    def claim(self, ids: Sequence[tuple[UUID, int]]) -> frozenset[UUID]:
        locked = self._run(
            "SELECT e.id FROM integration_messageerror e "
            "JOIN unnest(%s::uuid[], %s::int[]) v (id, version) "
            "ON e.id = v.id AND e.version = v.version ORDER BY e.id FOR UPDATE OF e",
            [[id_ for id_, _ in ids], [version for _, version in ids]],
        ).fetchall()
        return frozenset(id_ for (id_,) in locked)

    def settle(self, batch_result: BatchResult) -> bool:
        lone_track = self._lone_track(batch_result)
        if not lone_track:
            self._tracks(batch_result)
        if batch_result.new_errors or batch_result.changes or batch_result.met_again:
            self._errors(batch_result)
        are_new = not batch_result.seen or self._remember(batch_result)
        if batch_result.copies:
            failures, offsets = zip(*batch_result.copies, strict=True)
            self._run(LINK_COPIES, [list(failures), list(offsets), self.queue.id])
        if self.receipt_of is not None:
            jms_receipts.write(self._run, self.queue.id, self.receipt_of, batch_result)
        outbox.insert(batch_result.outgoing)
        if batch_result.arrivals:
            dependencies.remember(self._run, batch_result.arrivals)
        if batch_result.dispatch is not None:
            deliveries.write(self._run, batch_result.dispatch, self.queue.id, self.owned)
        self.settled = self._advance(batch_result, lone_track)
        if self.settled and not are_new:
            raise OperationalError(APPLIED_MEANWHILE) from pg.SerializationFailure(
                APPLIED_MEANWHILE
            )
        return self.settled

    def _lone_track(self, batch_result: BatchResult) -> list[Any]:
        """The only row of tracking, to be written as the position moves; nothing otherwise."""
        if not self.queue.tracks or self.owned.in_work is not None or batch_result.strays:
            return []
        if len(batch_result.tracks) != 1:
            return []
        place = (self.queue.id, self.owned.partition, self.arrival)
        return tracks.values(place, batch_result.tracks[0])

    def _tracks(self, batch_result: BatchResult) -> None:
        if not self.queue.tracks:
            return
        by_partition = {self.owned.partition: batch_result.tracks}
        for partition, track in batch_result.strays:
            by_partition.setdefault(partition, []).append(track)
        for partition, of_partition in by_partition.items():
            place = (self.queue.id, partition, self.arrival)
            if of_partition:
                self._copy(tracks.COPY, tracks.lines(place, of_partition))

    def _copy(self, sql: str, pieces: Iterable[bytes]) -> None:
        with (
            self.connection.wrap_database_errors,
            self.raw.cursor() as cursor,
            cursor.copy(sql) as copy,
        ):
            for piece in pieces:
                copy.write(piece)

    def _errors(self, batch_result: BatchResult) -> None:
        copied = frozenset(
            row.error for row in batch_result.outgoing if row.kind == OutboxKind.COPY and row.error
        )
        written: dict[UUID, tuple[UUID, int]] = {}
        self._renumber_met(batch_result.met_again)
        if batch_result.new_errors:
            values: list[Any] = []
            for new in batch_result.new_errors:
                values += rows.insert_values(
                    self.queue, self.owned, new, self.arrival, copied=new.id in copied
                )
            inserted = self._run(rows.insert_sql(len(batch_result.new_errors)), values).fetchall()
            by_offset = {offset: (id_, number) for id_, offset, number in inserted}
            for new in batch_result.new_errors:
                if (row := by_offset.get(new.unit.record.offset)) is not None:
                    written[new.id] = row
            self._adopt_known(batch_result, written)
            self._renumber_later(batch_result, written)
        if batch_result.changes:
            changes = [rows.change_values(c, self.arrival, copied) for c in batch_result.changes]
            changed = self._run(rows.CHANGE, rows.columns(changes))
            written |= {id_: (id_, number) for id_, number in changed.fetchall()}
            markers = [c.row.id for c in batch_result.changes if c.row.carrier == "topic"]
            if markers:
                self._run(CANCEL_RETRY_MARKERS, [markers])
        self._attempts(batch_result, written)
        if self.queue.keeps_keys_in_order or self.owned.has_parked:
            self._wake(batch_result, written)

    def _renumber_met(self, offsets: Sequence[int]) -> None:
        """Give open failures that were met again the number of the messages around them."""
        if not offsets:
            return
        here = [self.queue.id, self.owned.topic_uuid, self.owned.partition, list(offsets)]
        met = self._run(key_order.RENUMBER_MET, [self.arrival, *here]).fetchall()
        if met and (self.queue.keeps_keys_in_order or self.owned.has_parked):
            self._run(key_order.RENUMBER_LATER, [[id_ for (id_,) in met]])

    def _renumber_later(
        self, batch_result: BatchResult, written: Mapping[UUID, tuple[UUID, int]]
    ) -> None:
        """What failed earlier and lies behind these in the log is of a later message."""
        until = self.owned.failed_until
        if until is None or not (self.queue.keeps_keys_in_order or self.owned.has_parked):
            return
        again = [new for new in batch_result.new_errors if new.unit.record.offset <= until]
        ids = [written[new.id][0] for new in again if new.id in written]
        if ids:
            self._run(key_order.RENUMBER_LATER, [ids])

    def _wake(self, batch_result: BatchResult, written: Mapping[UUID, tuple[UUID, int]]) -> None:
        """Make due what is first of its key after this commit."""
        news = [new for new in batch_result.new_errors if new.state is ErrorState.PARKED]
        parked = [written[new.id][0] for new in news if new.id in written]
        parked += [row.id for row in batch_result.parked_rows]
        closed = [c.row.id for c in batch_result.changes if c.state is ErrorState.RESOLVED]
        if parked or closed:
            key_order.wake(self._run, parked + closed)

    def _adopt_known(
        self, batch_result: BatchResult, written: Mapping[UUID, tuple[UUID, int]]
    ) -> None:
        """A failure met again has its row already, by which what goes out with it names it."""
        ids = {new.id for new in batch_result.new_errors}
        ids -= {id_ for id_, (row, _) in written.items() if row == id_}
        if not ids:
            return
        known = {id_: written[id_][0] if id_ in written else None for id_ in ids}
        batch_result.outgoing = of_known_rows(batch_result.outgoing, known)
        state = batch_result.state
        if state is not None and state.error in known:
            batch_result.state = replace(state, error=known[state.error])

    def _attempts(
        self, batch_result: BatchResult, written: Mapping[UUID, tuple[UUID, int]]
    ) -> None:
        tries = rows.attempt_values(
            batch_result.new_errors, batch_result.changes, written, self.queue.worker
        )
        if tries:
            self._run(rows.ATTEMPTS, rows.columns(tries))

    def _remember(self, batch_result: BatchResult) -> bool:
        """Remember the applied ids; False where one that must be new is taken.

        In one order everywhere: two batches that share several ids wait for each other then.
        """
        ids, applied, new = zip(*sorted(batch_result.seen), strict=True)
        parameters = [self.queue.id, list(ids), *map(list, zip(*applied, strict=True))]
        written = {id_ for (id_,) in self._run(REMEMBER_IDS, parameters).fetchall()}
        must_be_new = {id_ for id_, is_new in zip(ids, new, strict=True) if is_new}
        return must_be_new <= written

    def _advance(self, batch_result: BatchResult, lone_track: list[Any]) -> bool:
        owned = self.owned
        reached = self._reached(batch_result, lone_track)
        if reached is None:
            return False
        if owned.isolate_until is not None:
            self._run(
                "UPDATE integration_queuepartition SET suspect_offset = NULL, suspect_crashes = 0 "
                "WHERE id = %s AND epoch = %s AND suspect_offset < next_offset",
                [owned.id, owned.epoch],
            )
        if batch_result.state is None:
            return True
        parameters = state_parameters(owned, batch_result.state, self.batch)
        parameters |= {"next": None, "old": reached}
        return bool(self._run(STATE, parameters).rowcount == 1)

    def _reached(self, batch_result: BatchResult, lone_track: list[Any]) -> int | None:
        """Write the position; returns it, or None behind the fence."""
        if self.owned.in_work is not None and batch_result.closed is not None:
            parameters = self._close(self.owned.in_work, batch_result.closed)
            row = self._run(CLOSE, parameters).fetchone()
            return None if row is None else int(row[0])
        owned, logged = self.owned, batch_result.logged or (0, 0)
        goes_to = batch_result.next_offset
        fence = [goes_to, self.batch, owned.id, owned.epoch, owned.next_offset, goes_to]
        log = [self.arrival, owned.topic_uuid, *logged, batch_result.logged is not None]
        sql = ADVANCE_WITH_TRACK if lone_track else ADVANCE
        is_ours = self._run(sql, [*fence, *log, *lone_track]).fetchone()[0] == 1
        return goes_to if is_ours else None

    def _close(self, in_work: OpenBatch, closed: Sequence[int]) -> dict[str, Any]:
        return {
            "id": self.owned.id,
            "epoch": self.owned.epoch,
            "uuid": self.owned.topic_uuid,
            "batch": self.batch,
            "arrival": in_work.arrival,
            "from": in_work.first,
            "until": in_work.until,
            "end": in_work.end,
            "offsets": list(in_work.offsets),
            "closed": list(closed),
            "last": max(closed, default=-1) + 1,
        }
