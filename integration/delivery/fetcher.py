"""The choice of the next messages: the head's row, released and overdue rows, or Kafka."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Final
from uuid import UUID

from integration.delivery.batch_result import RUNNING, StateChange
from integration.delivery.context import RunContext
from integration.delivery.foreign import hold_foreign, passes
from integration.delivery.outcome import HAS_ROW, PASSED, STALE, Waits
from integration.delivery.owned import HEAD_HELD, ClosedHead, CopiedHead, OpenBatch, Owned
from integration.delivery.reading import RetryMarker, copied_failure, retry_marker_of
from integration.delivery.rescued import take_rescued
from integration.delivery.steps import Step
from integration.delivery.stopping import arrive, before_stop
from integration.delivery.unit import OpenError, Unit
from integration.policy.states import ErrorState, PartitionState
from integration.values import Fetched, Record

VALUE: Final = attrgetter("value")
ROWS_EVERY_SECONDS: Final = 0.25
READ_AT_ONCE: Final = 500

# What keeps the partition is not its head: the pause that was set for it stays. So does a stop at
# the failure threshold: that is for a person to take away.
NOT_THE_HEAD: Final = frozenset({PartitionState.OUTAGE, PartitionState.WAITING})


@dataclass(slots=True)
class Batch:
    """Messages of one partition to be delivered together; `stopped` tells how that ended."""

    owned: Owned
    units: list[Unit]
    stopped: bool = False


class Fetcher:
    """Chooses what is worked on next. Rows and Kafka take turns, so that neither starves."""

    def __init__(self, context: RunContext, held: list[Owned]) -> None:
        self.context = context
        self.held = held
        self._ends: set[int] = set()
        self._at: dict[int, int] = {}
        self._rows_due_at = 0.0
        # Partitions whose rows met an outage: they have its pause like all that is read there.
        self._stopped: set[int] = set()
        self.has_more_rows = False

    def from_heads(self) -> Iterator[Batch]:
        """Sequential queues: while a row exists at the next offset, the head comes from it."""
        if not self.context.queue.sequential:
            self._forget_heads()
            return
        for owned in list(self.held):
            while owned.may_have_head and not (owned.blocked_by_topic or owned.at_stop):
                unit = self._head(owned)
                if unit is None:
                    break
                yield Batch(owned, [unit])

    def _forget_heads(self) -> None:
        """An error queue whose strict order was given up waits at no head any more."""
        for owned in self.held:
            if owned.may_have_head:
                owned.may_have_head = False
                self._unblock(owned)

    def _head(self, owned: Owned) -> Unit | None:
        head = self.context.repository.head(owned)
        match head:
            case None:
                owned.may_have_head = False
                self._unblock(owned)
                return None
            case OpenError() if head.state == ErrorState.READY or (
                head.state == ErrorState.RETRY and head.due and owned.due
            ):
                unit = self._row_unit(owned, head)
                unit.moves = True
                return unit
            case ClosedHead() | OpenError(parked=True):
                owned.has_parked = owned.has_parked or isinstance(head, OpenError)
                owned.may_have_head = owned.state is not PartitionState.BRAKED
                if owned.may_have_head:
                    self._pass(owned)
                return None
            case OpenError():
                self._wait_at(owned, head)
                return None
            case CopiedHead():
                owned.may_have_head, owned.due = False, False
                return None

    def _pass(self, owned: Owned) -> None:
        """A person deleted or parked the head, or a late run resolved it: the position goes on."""
        if self.context.repository.state(owned, RUNNING, owned.next_offset + 1):
            owned.next_offset += 1
            owned.state, owned.due = PartitionState.RUNNING, True
        else:
            owned.may_have_head = False

    def _unblock(self, owned: Owned) -> None:
        """No row at the head: a state that spoke of one is out of date."""
        stale = owned.state is PartitionState.BACKOFF or owned.state_code == HEAD_HELD
        if stale and self.context.repository.state(owned, RUNNING):
            owned.state, owned.state_code, owned.due = PartitionState.RUNNING, "", True

    def _wait_at(self, owned: Owned, head: OpenError) -> None:
        owned.may_have_head = False
        is_kept = owned.state in NOT_THE_HEAD and not owned.due
        if is_kept or owned.state is PartitionState.BRAKED:
            return
        blocked = head.state != ErrorState.RETRY
        state = PartitionState.BLOCKED if blocked else PartitionState.BACKOFF
        owned.due = False
        if owned.state is state:
            return
        change = StateChange(
            state=state,
            code="HEAD_HELD" if blocked else "RETRY_WAIT",
            text=f"The first message waits: {head.code}.",
            error=head.id,
            resume_seconds=None if blocked else max(head.due_in_seconds, 0.0),
        )
        if self.context.repository.state(owned, change):
            owned.state, owned.state_code = state, change.code

    def from_rows(self) -> Iterator[Batch]:
        """Released rows and overdue retries, in arrival order, a batch per partition."""
        now = self.context.monotonic()
        if now < self._rows_due_at:
            return
        full = False
        for owned in list(self.held):
            if owned.id in self._stopped and not owned.due:
                continue
            self._stopped.discard(owned.id)
            for rows in self._due_rows(owned):
                batch = Batch(owned, [self._row_unit(owned, row) for row in rows])
                yield batch
                if batch.stopped:
                    self._stopped.add(owned.id)
                if batch.stopped or owned not in self.held:
                    continue
                # Behind the first of its key the next one is due as soon as that is through.
                is_followed = self.context.queue.keeps_keys_in_order
                full = full or is_followed or len(rows) >= self.context.queue.batch_size
                self._ran_alone(owned, len(rows))
        self.has_more_rows = full
        self._rows_due_at = now if full else now + ROWS_EVERY_SECONDS

    def _ran_alone(self, owned: Owned, count: int) -> None:
        """End the isolation once as many rows ran alone as one batch may have had, in several runs.

        The one that kills was none of them. Where the topic has more it may stand there.
        """
        if owned.isolate_until is None:
            return
        has_more = owned.reads_kafka and owned.partition not in self._ends
        if not has_more and self.context.repository.ran_alone(owned, count):
            self.context.end_isolation(owned, self.held)

    def _due_rows(self, owned: Owned) -> Iterator[Sequence[OpenError]]:
        """One batch; where a strict error queue gives turns, one row after the other.

        The next one's turn comes when the one before it is closed, so each is asked for anew.
        """
        limit = self.context.queue.batch_size
        tried: set[UUID] = set()
        for _ in range(1 if self.context.queue.strict_error_queue is None else limit):
            rows = self.context.repository.due_rows(owned, limit)
            if not rows or rows[0].id in tried or owned not in self.held:
                return
            tried.update(row.id for row in rows)
            yield rows

    def fetch(self, wait_seconds: float) -> Fetched:
        """The next records of every partition that may be read; rescued ones go before Kafka's."""
        reading = {owned.partition: owned for owned in self.held if owned.reads_kafka}
        rescued = [owned for owned in reading.values() if owned.rescued_until is not None]
        in_kafka = {p: owned for p, owned in reading.items() if owned.rescued_until is None}
        self._attach(in_kafka)
        fetched = Fetched()
        if in_kafka:
            # With rows or rescued records at hand nobody waits for Kafka: what is there is taken.
            wait = 0.0 if self.has_more_rows or rescued else wait_seconds
            fetched = self.context.source.fetch(self.context.queue.batch_size, wait)
        for partition, records in fetched.records.items():
            self._at[partition] = records[-1].offset + 1
        self._ends = (self._ends - fetched.records.keys()) | fetched.drained
        for owned in rescued:
            self._ends.discard(owned.partition)
            take_rescued(self.context, owned, fetched)
        self._probe(reading, fetched)
        return fetched

    def _probe(self, reading: Mapping[int, Owned], fetched: Fetched) -> None:
        """Hand out one message of a partition in an outage; the rest is read again behind it.

        What is through already before it comes along. The others are read as always: where all had
        to read one by one, the first partitions would keep those that probe from their turn.
        """
        for partition, records in fetched.records.items():
            owned = reading[partition]
            if owned.state is PartitionState.OUTAGE:
                is_open = (place for place, r in enumerate(records) if r.offset not in owned.done)
                first = next(is_open, len(records)) + 1
                if first < len(records):
                    fetched.records[partition] = records[:first]
                    self._ends.discard(partition)

    @property
    def drained(self) -> bool:
        """Return whether all that is being read is read to its end, and no more rows are due."""
        ends = (owned.partition in self._ends for owned in self.held if owned.reads_kafka)
        return not self.has_more_rows and all(ends)

    def _attach(self, reading: dict[int, Owned]) -> None:
        offsets = {partition: owned.next_offset for partition, owned in reading.items()}
        if offsets != self._at:
            self.context.source.attach(offsets)
            self._at = offsets
            self._ends = set()
            self.context.observer.step(Step.ATTACHED)

    def from_kafka(self, fetched: Fetched) -> Iterator[Batch]:
        """Fetched records as batches; those of partitions that were given up are dropped."""
        for partition, records in fetched.records.items():
            owned = next((o for o in self.held if o.partition == partition), None)
            if owned is None or not owned.reads_kafka:
                continue
            before, stop = before_stop(owned, records), owned.stop_at
            rest = owned.rest
            open_ = before if rest is None or not before else self._rest_of(owned, rest, before)
            if open_ and (units := self._units_of(owned, open_)):
                yield Batch(owned, units)
            if len(before) == len(records) or owned not in self.held:
                continue
            if owned.stop_at == stop:
                arrive(self.context, owned, before)
            else:
                # Moved meanwhile: what lies between the two is read again, and not passed.
                self._ends.discard(partition)

    def _rest_of(
        self, owned: Owned, rest: OpenBatch, records: Sequence[Record]
    ) -> Sequence[Record]:
        """What stands open of a batch that was begun: nothing behind it comes before it is through.

        Where none of these does, the position passes them, as it does what has expired since.
        """
        inside = [record for record in records if record.offset < rest.until]
        if len(inside) < len(records):
            self._ends.discard(owned.partition)
        open_ = [record for record in inside if record.offset not in rest.done]
        if not open_:
            is_last = len(inside) < len(records)
            self._go_on_at(owned, rest.until if is_last else inside[-1].offset + 1)
        return open_

    def _go_on_at(self, owned: Owned, offset: int) -> None:
        """Pass what is no message to be tried."""
        if self.context.repository.state(owned, RUNNING, offset):
            owned.next_offset = offset
            owned.state, owned.state_code, owned.due = PartitionState.RUNNING, "", True
        else:
            owned.state, owned.due = PartitionState.BLOCKED, False

    def _units_of(self, owned: Owned, records: Sequence[Record]) -> list[Unit]:
        units = self.units(owned, records)
        if owned.failed_until is not None and records[0].offset <= owned.failed_until:
            return self._replayed(owned, records, units)
        return units

    def _replayed(self, owned: Owned, records: Sequence[Record], units: list[Unit]) -> list[Unit]:
        """The position went back: where a row is the message, its offset is passed.

        A sequential queue goes up to the first of these that is open: that is its head then.
        """
        failed = self.context.repository.failed_between(
            owned, records[0].offset, records[-1].offset
        )
        for place, record in enumerate(records):
            if record.offset in failed:
                unit = units[place]
                units[place] = Unit(record, None, None, HAS_ROW, unit.message_id, unit.interface)
        open_ = [offset for offset, is_open in failed.items() if is_open]
        if open_ and self.context.queue.sequential:
            return self._up_to(owned, min(open_), units)
        # What waited for the position to come past it may be due now.
        self._rows_due_at = self._rows_due_at if not open_ else float("-inf")
        return units

    def _up_to(self, owned: Owned, head: int, units: list[Unit]) -> list[Unit]:
        owned.may_have_head = True
        self._ends.discard(owned.partition)
        before = [unit for unit in units if unit.at < head]
        if not before and owned.next_offset < head:
            # No record lies between the position and the row, only markers.
            self._go_on_at(owned, head)
        return before

    def pass_markers(self, fetched: Fetched) -> None:
        """Step over what is no record at the end of a partition: markers of transactions.

        Left before them, the position would show a lag for ever, and a gap once they expire.
        """
        for owned in self.held:
            end = fetched.ends.get(owned.partition)
            if end is None or owned.state is not PartitionState.RUNNING:
                continue
            is_read = owned.next_offset == self._at.get(owned.partition)
            end = owned.up_to_stop(end)
            if (
                is_read
                and end > owned.next_offset
                and self.context.repository.state(owned, RUNNING, end)
            ):
                owned.next_offset = self._at[owned.partition] = end

    def units(self, owned: Owned, records: Sequence[Record]) -> list[Unit]:
        if self.context.queue.is_error_queue:
            return self._copy_units(owned, records)
        units = self._read(owned, records)
        if b"" in map(VALUE, records):
            markers = {
                place: marker
                for place, record in enumerate(records)
                if (marker := retry_marker_of(record)) is not None
            }
            if markers:
                self._resolve(owned, units, markers)
        return units

    def _read(self, owned: Owned, records: Sequence[Record]) -> list[Unit]:
        """The records' units, a few at a time: the time of a call is not that of a batch."""
        if self._isolates(owned):
            return [self.context.reader.unread(record) for record in records]
        units: list[Unit] = []
        for begin in range(0, len(records), READ_AT_ONCE):
            self.context.manager.working()
            units += self.context.reader.units(records[begin : begin + READ_AT_ONCE])
        self.context.manager.resting()
        return units

    def _row_unit(self, owned: Owned, row: OpenError) -> Unit:
        if self._isolates(owned):
            return self.context.reader.unread(row.record, row)
        self.context.manager.working()
        unit = self.context.reader.row_unit(row)
        self.context.manager.resting()
        return unit

    def _isolates(self, owned: Owned) -> bool:
        """Return whether messages are read under their markers."""
        return owned.isolate_until is not None

    def _resolve(self, owned: Owned, units: list[Unit], markers: dict[int, RetryMarker]) -> None:
        """Replace retry markers by the rows they point at; one without a due row is stale."""
        rows = dict(self.context.repository.retry_rows(list(markers.values())))
        for place, marker in markers.items():
            record = units[place].record
            row = rows.pop(marker.error, None)
            if row is None:
                units[place] = Unit(record, None, None, STALE, "", "")
            else:
                units[place] = self._row_unit(owned, row)
                units[place].moves = True
                units[place].at = record.offset

    def _copy_units(self, owned: Owned, records: Sequence[Record]) -> list[Unit]:
        """Our own copies pass; in strict order the copy of an open failure is waited at.

        What strangers put into an error queue is kept for a person.
        """
        own = [passes(record, self.context.deployment) for record in records]
        foreign = [record for record, is_own in zip(records, own, strict=True) if not is_own]
        held = map(hold_foreign, self._read(owned, foreign))
        units = [
            Unit(record, None, None, PASSED, "", "") if is_own else next(held)
            for record, is_own in zip(records, own, strict=True)
        ]
        if not self.context.queue.keeps_copies_in_order:
            return units
        copies = {
            place: failure
            for place, unit in enumerate(units)
            if unit.known is PASSED and (failure := copied_failure(unit.record)) is not None
        }
        open_ = (
            self.context.repository.open_copies(list(copies.values())) if copies else frozenset()
        )
        for place, failure in copies.items():
            if failure in open_:
                units[place].known = Waits(failure)
        return units
