"""The ports through which the engine reaches the world.

Each port has an in-memory fake in tests/support; one contract suite runs over both.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol
from uuid import UUID

from integration.delivery.added import AddedPartitions
from integration.delivery.batch_result import Applied, BatchResult, StateChange
from integration.delivery.owned import ClosedHead, CopiedHead, Owned
from integration.delivery.reading import RetryMarker
from integration.delivery.sending.values import Past
from integration.delivery.snapshot import QueueSnapshot
from integration.delivery.unit import OpenError, Unit
from integration.errors import IntegrationError
from integration.policy.shares import Runs
from integration.values import Assignment, Fetched, Record, TopicFacts


class LostError(IntegrationError):
    """The database session of the run is gone; what was not committed did not happen."""

    code = "DATABASE_LOST"

    def __init__(self, text: str = "") -> None:
        super().__init__(f"The database session of this run is gone. {text}".strip())


class Stop(Protocol):
    """Tells why a run should end, or None.

    `quiet_seconds`: for how long it has read everything and only waited; 0 while it works.
    """

    def __call__(self, *, quiet_seconds: float = 0.0) -> str | None: ...


def never(*, quiet_seconds: float = 0.0) -> str | None:
    """Return no reason to end, whatever the run does."""
    del quiet_seconds
    return None


class QueueGoneError(IntegrationError):
    """The queue of the run was deleted; there is nothing left to work on."""

    code = "QUEUE_GONE"

    def __init__(self, queue: str) -> None:
        super().__init__(f"The queue {queue!r} was deleted.")


def nothing() -> bool:
    """Do nothing while the database works; returns that there is no more to do."""
    return False


class Source(Protocol):
    """Kafka as one run sees it: attached partitions of one topic.

    In group mode it is a member of a consumer group, which says what the run may try. A queue of a
    JMS broker is a topic with one partition; `commit_to_group` accepts its messages.
    """

    commit_every_seconds: float
    """how long what is committed may be unknown to the source"""

    def assigned(self) -> Assignment | None:
        """Return what the group lets this run try now; the first call joins it.

        None when no group has a say: none is to be joined, or it refuses us, as `facts` says then.
        Without partitions as long as the group has assigned none. Never waits, never raises.
        """

    def attach(self, positions: Mapping[int, int]) -> None:
        """Read from exactly these offsets on (partition -> next offset).

        Replaces what was attached before; with an empty mapping nothing is read. May be called
        again at any time; records fetched before for a partition that stays attached at the
        same place may be delivered again from the new position only.
        """

    def fetch(self, limit: int, wait_seconds: float) -> Fetched:
        """Return at most `limit` records, waiting up to `wait_seconds` for the first.

        Returns as soon as something is there. Never raises for what Kafka says: that is a
        Trouble. A partition is `drained` when its end was reached after the returned records.
        Only committed transactions are returned; offsets may have gaps.
        """

    def read_ahead(self, limit: int) -> Sequence[Record]:
        """Take a few records that have come already, and keep them for the next fetch.

        Returns those taken now: none where enough are kept, or none have come, `limit` in all.
        Never waits, never raises. What is kept is forgotten when the source is attached anew.
        """

    def facts(self) -> TopicFacts | None:
        """Topic UUID and watermarks asked from the broker now; None when the topic is gone.

        Raises BrokerUnreachableError when nobody answers within 5 s, and an IntegrationError for a
        group that cannot be joined.
        """

    def ends(self) -> Mapping[int, int] | None:
        """Return where each log ends now, with what is in open transactions, by partition.

        Of the partitions that `facts` told last; None when the topic is gone. Raises as that does.
        """

    def commit_to_group(self, positions: Mapping[int, int]) -> None:
        """Take note of committed positions; failures are logged, never raised. Hardly waits."""

    def close(self) -> None:
        """Leave; may be called twice."""


class UnitOfWork(Protocol):
    """One open transaction on one partition; everything a batch causes goes through it.

    Database errors are raised as Django's; only `settle` reports a verdict.
    """

    arrival: int
    """the batch's arrival number, drawn after its last record was fetched"""

    def savepoint(self) -> None:
        """Start a savepoint."""

    def keep(self) -> None:
        """Check deferred constraints, then replace the savepoint: one round trip."""

    def undo(self) -> None:
        """Back to the savepoint, which stays; hooks registered since are forgotten."""

    def check(self) -> None:
        """Check deferred constraints now, as the commit would."""

    def abandon(self) -> None:
        """Roll back at the end of the block instead of committing."""

    def is_broken(self) -> bool:
        """Return whether a swallowed error has spoilt the transaction. Costs no round trip."""

    def is_lost(self) -> bool:
        """Return whether the connection is gone. Costs no round trip."""

    def seen(self, ids: Sequence[str]) -> Mapping[str, frozenset[bytes]]:
        """Content hashes of those message ids that were applied, or whose failure is open.

        An id has several when other content that came under it is held.
        """

    def applied(self, ids: Sequence[str]) -> Mapping[str, Applied]:
        """Return the first message that was applied under each of the ids."""

    def claim(self, ids: Sequence[tuple[UUID, int]]) -> frozenset[UUID]:
        """Lock error rows (id, version); those that a person moved meanwhile are left out."""

    def settle(self, batch_result: BatchResult) -> bool:
        """Write all consequences; False when the partition belongs to somebody else by now.

        False as well when the position would go beyond the partition's stop, see
        Repository.read_stops. Intents of records beyond it are not written.
        """


class Repository(AddedPartitions, Protocol):
    """The database as one run sees it."""

    def work(
        self, owned: Owned, meanwhile: Callable[[], bool] = nothing
    ) -> AbstractContextManager[UnitOfWork]:
        """One transaction: committed at the end of the block, rolled back by an exception.

        `meanwhile` is called while the database works, as often as there is time and until it
        returns False; it must not raise.

        A block without a batch result is rolled back: effects never commit without their position.
        Raises LostError when the connection breaks; a commit whose answer is lost is looked up
        by its batch id and raises only when it did not happen.

        While `owned.in_work` is set, several threads may be in such blocks of one partition, each
        on a session of its own: its number is the arrival of each, and each commit closes its
        offsets, whatever the others have closed meanwhile.
        """

    def draw_arrival(self) -> int:
        """Return an arrival number for a batch that is going to be committed in several parts."""

    def head(self, owned: Owned) -> OpenError | ClosedHead | CopiedHead | None:
        """The row at the partition's next offset, if there is one.

        One that was closed before a person moved the position back over it is none: its message
        is read again.
        A strict error queue that stands at a copy is told of the failure it is the copy of.
        """

    def open_copies(self, failures: Sequence[UUID]) -> frozenset[UUID]:
        """Return those of these failures that are open in a queue that feeds this error queue."""

    def rescued(self, owned: Owned, limit: int) -> Sequence[Record]:
        """At most `limit` records from the position on that were rescued, in their order.

        All lie in the range that the position lies in; none is left there where none is returned.
        """

    def failed_between(self, owned: Owned, first: int, last: int) -> Mapping[int, bool]:
        """The offsets from `first` to `last` whose row is the message: whether that is open.

        As of a head, one that was closed before a person moved the position back over it is not.
        """

    def due_rows(self, owned: Owned, limit: int) -> Sequence[OpenError]:
        """READY rows and overdue RETRY rows of this partition, in arrival order.

        Where keys keep their order, only the first open row of each, and behind it the rows of
        its key that may be tried in the same go, parked ones too; never behind one that waits.
        READY rows that are not the first become PARKED, so that the next look passes over none.
        A queue that sends gets no more than the first ones.

        Where the queue's error queue keeps its order, of those copied to it only the one whose
        turn it is: no failure copied earlier by any queue that feeds it is open, and the error
        queue stands at no failure of its own. One whose copy the error queue has passed waits
        for nobody.
        """

    def retry_rows(self, markers: Sequence[RetryMarker]) -> Mapping[UUID, OpenError]:
        """The queue's rows that these retry markers point at and whose retry is the one named."""

    def settle_at_once(self, owned: Owned, batch_result: BatchResult) -> bool | None:
        """Commit an ordinary batch result of sending by itself, without a block of `work`.

        False as in `settle`; None when there is more to write than that: nothing has happened then,
        and it is settled through `work`.
        """

    def past(self, owned: Owned, offsets: Sequence[int] = (), last: int | None = None) -> Past:
        """Read what is known of calls of endpoints; sending only.

        Of what has ended that at these offsets, and how far it reaches; of doubts all. `last`, as
        an earlier answer had it, is not looked for again: that may take long. Where the call in
        doubt was the probe of an endpoint, another one may be made at once.
        """

    def open_keys(self, owned: Owned, keys: Sequence[bytes]) -> Mapping[bytes, int]:
        """Return those of these order keys under which a failure is open, and where the first is.

        That is its offset; one that did not come from this partition is before everything: -1.
        """

    def most_parked(self, keys: Sequence[bytes]) -> int:
        """Count what is parked of the order key that has most, no further than beyond the limit."""

    def wake_waiting(self, owned: Owned, batch_result: BatchResult) -> None:
        """After a commit: make due what waits for what it stored, and what of it waits in vain.

        The first wait for an object that is there now; the others failed in this commit for want of
        one that has come meanwhile. Each arrival makes a message due once. Never raises.
        """

    def wake_parked(self) -> None:
        """Make due what is parked behind nothing, or in a queue that keeps no key in order.

        A commit that closes a failure wakes what is parked behind it. This is for whatever became
        of rows and settings while no run looked.
        """

    def wake_missed(self, *, everywhere: bool = False) -> None:
        """Make due what waits for an object that has come since its last try.

        The commit that stores an object wakes what waits for it. This is for those whose process
        died before they had looked again, and `everywhere`, in all queues, for those that a process
        which died before it woke them had stored something for.
        """

    def mark(self, owned: Owned, unit: Unit) -> bool:
        """Commit a crash suspect's marker; False when fenced.

        The crashes that were counted when the partition was taken stay with the message they are
        of, whichever were marked before it, also where the run ends before it has come to it.
        A row that a person moved since it was read gets none; its claim leaves it out then.
        """

    def is_suspect(self, owned: Owned, unit: Unit) -> bool:
        """Return whether it is the message for which the last owner's marker stood.

        A JMS broker may send another one first, which gets its offset then.
        """

    def ran_alone(self, owned: Owned, count: int) -> bool:
        """Count rows that ran alone and killed nobody; return whether they are a batch by now.

        Counted since the last unclean end, over all runs; then no run isolates here any more.
        """

    def unmark(self, owned: Owned, unit: Unit) -> None:
        """Take the marker back when the unit ended without a batch result."""

    def state(self, owned: Owned, change: StateChange, next_offset: int | None = None) -> bool:
        """Write a state (and a position) outside a batch; False when fenced."""

    def look(self, owned: Owned) -> None:
        """Read a partition's state again: a person or the clock may have cleared it."""

    def read_stops(self, held: Sequence[Owned]) -> frozenset[int]:
        """Read up to where people want these partitions worked: into `stop_at`.

        Returns the ids of those that are still as this run left them, in epoch and position; no
        other one is touched.
        """

    def pause_at_stops(self, owned: Owned) -> bool:
        """Pause the queue, in the name of who asked, once no partition stands before its stop.

        False when one does, when there is no stop, when it is paused already, and when fenced. The
        stops stay until a person resumes, so that no other run goes on meanwhile.
        """

    def gap(self, owned: Owned, to_offset: int, reason: str) -> None:
        """Record that [next_offset, to_offset) is passed untried. Nothing is skipped silently.

        While nobody has acknowledged it, the gap of a position is one row, which may grow.
        """

    def gap_acknowledged(self, owned: Owned) -> int | None:
        """Up to which offset a person has accepted that messages are gone; None: nobody has.

        Only what expired counts: who skipped messages may come back for them.
        """

    def expire_head(self, owned: Owned, *, passes: bool) -> bool:
        """Note on the open row at the next offset that Kafka no longer has it; False: no row.

        That is a fact about the row: its state stays, and so does what it makes of the partition.
        Where the position `passes` it, what would be tried by itself goes on hold.
        """

    def open_errors(self) -> int:
        """Count the rows of the queue that are open and not released, no further than its limit.

        What was released counts as such also where it is parked behind an earlier one of its key.
        Rows that a bulk run rejected are left out: no message of the queue failed.
        """

    def snapshot(self) -> QueueSnapshot:
        """The queue's configuration now. Raises QueueGoneError when it was deleted."""


class PartitionManager(Protocol):
    """Ownership: which partitions this run holds. `working` and `resting` are of each thread."""

    def take(self, assigned: Callable[[], Assignment | None] | None = None) -> list[Owned]:
        """Lock the free partitions of the queue, up to this run's share, and raise their epochs.

        Where other runs hold all of them and have more than their share, it waits for its own.
        In group mode `assigned` tells what the group lets this run try: that is its share then,
        and it waits for that, too. It is not asked, and nothing joined, for a run too many.
        """

    def runs(self) -> Runs:
        """Return which runs of the queue there are now, this one among them."""

    def take_more(self, count: int) -> list[Owned]:
        """Take at most so many partitions that nobody holds, and raise their epochs.

        What its owner died with is left to the run that is asked for then, for a few seconds.
        """

    def take_assigned(self, assignment: Assignment) -> list[Owned]:
        """Take those of the assigned partitions that nobody holds, whatever their owners died of.

        The group has decided who follows, and nobody else would come.
        """

    def give_up(self, surplus: Sequence[Owned]) -> None:
        """Give partitions back between two batches, as `close` does with all."""

    def ask_for_help(self) -> None:
        """Ask for another run of the queue, if a worker is free."""

    def is_lost(self) -> bool:
        """Return whether the session that holds the locks is gone: then nothing more is settled."""

    def working(self) -> None:
        """A call of a handler or of the parser starts now; it may take the handler timeout.

        A process that only runs ends when it takes longer. Any other stops renewing the lease.
        """

    def resting(self) -> None:
        """Nothing is being called or parsed."""

    def close(self, *, clean: bool) -> None:
        """Give everything back; `clean` unless the session was lost. May be called twice."""
