"""Ownership of partitions: advisory locks on a session of their own, epochs, and the lease."""

import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from threading import get_ident
from typing import Any, Final

import psycopg
from django.conf import settings
from psycopg.rows import dict_row

from integration.delivery.owned import OpenBatch, Owned
from integration.delivery.ports import LostError, Stop, never
from integration.policy.shares import Runs, first_share, share
from integration.policy.states import PartitionState
from integration.store import joining, locks, sharing
from integration.store.partition_lease import (
    EXPIRED,
    KEEP_SUSPECT,
    RELEASE,
    RENEW,
    REVERT,
    TAKE,
)
from integration.store.sessions import (
    TERMINATE,
    Session,
    backend_of,
    django_connection,
    raw_connection,
)
from integration.store.watchdog import SOONEST_END_LEASES, Watchdog, owns_this_process
from integration.values import Assignment

# After its sessions are terminated a stopped owner's locks are free as soon as the server has
# ended them; a running statement ends at its next interrupt check.
TAKEOVER_TRIES: Final = 20
# A run that was asked for to help waits so long for the batches that are under way to end.
CLAIM_SECONDS: Final = 10.0
CLAIM_EVERY_SECONDS: Final = 0.05

# A commit that is prepared while its owner is ended holds the row: the next run settles it first.
ROW_PATIENCE: Final = "SET lock_timeout = '15s'"

SettleLeft = Callable[[Session, Sequence[int]], Collection[int]]
OPEN_BATCH: Final = ("done_offsets", "open_from", "open_until", "open_arrival")


def nothing_left(_session: Session, _partitions: Sequence[int]) -> Collection[int]:
    """No partition has one."""
    return ()


def _open_batch(row: dict[str, Any]) -> OpenBatch | None:
    """Take the batch out of the row that stands open there, if one does."""
    done, first, until, arrival = (row.pop(name) for name in OPEN_BATCH)
    if until is None or row["next_offset"] >= until:
        return None
    return OpenBatch(arrival=arrival, first=first, until=until, done=set(done))


def _suspects_ahead(held: Sequence[Owned]) -> Iterator[dict[str, Any]]:
    """Parameters of KEEP_SUSPECT for what earlier runs died on and this one has not come to."""
    for owned in held:
        if owned.suspect_crashes and not owned.has_met_suspect:
            suspect = {"at": owned.suspect_offset, "receipt": owned.suspect_receipt}
            here = {"id": owned.id, "epoch": owned.epoch}
            yield here | suspect | {"crashes": owned.suspect_crashes}


class DatabasePartitionManager:
    """The partitions of one queue that this run could lock.

    `workers` is how many runs may share them, None for as many as there are partitions; `stop` is
    asked while the run waits for its share. `settle_left` settles two-phase commits that earlier
    owners left, and returns the partitions (ids) where that is not possible. With `rescues` it is
    no run: it takes what it is told to (`take_only`), and its death counts against no message. The
    thread that renews the lease uses the lock session alone, so that no batch delays it and it
    never shares a session with one.
    """

    def __init__(  # noqa: PLR0913 - each tells one way in which runs differ
        self,
        queue_id: int,
        worker: str,
        handler_timeout_seconds: float,
        *,
        workers: int | None = 1,
        stop: Stop = never,
        rescues: bool = False,
        settle_left: SettleLeft = nothing_left,
    ) -> None:
        self.queue_id = queue_id
        self._settle_left = settle_left
        self._doubted: set[int] = set()
        self._suspected: list[Owned] = []
        self.rescues = rescues
        self.workers = workers
        self.stop = stop
        self.owner = f"{worker}/{uuid.uuid4().hex[:12]}"[:200]
        self.handler_timeout_seconds = handler_timeout_seconds
        self.lease_seconds: float = settings.SLUICE_LEASE_SECONDS
        self._session: Session | None = None
        self._thread: threading.Thread | None = None
        self._over = threading.Event()
        self._lost = False
        self._working_since: dict[int, float] = {}
        self._watchdog: Watchdog | None = None

    def take(self, assigned: Callable[[], Assignment | None] | None = None) -> list[Owned]:
        try:
            self._session = self._connected()
            self._session.execute(locks.TRY_SHARED, [locks.LockClass.RUN, self.queue_id])
            if assigned is None:
                held = self._take_share(self._session)
            else:
                held = self._take_as_member(self._session, assigned)
        except psycopg.Error as e:
            raise LostError(str(e).strip()) from e
        if held:
            self._keep()
            if owns_this_process():
                self._watchdog = Watchdog(self.lease_seconds, self._hangs)
                self._watchdog.start()
        return held

    def _connected(self) -> Session:
        session = raw_connection(f"sluice-lock {self.owner}")
        session.execute(f"{ROW_PATIENCE}; SELECT {locks.SESSION_HAS_NO_LEASE}")
        return session

    def take_only(self, ids: Sequence[int]) -> list[Owned]:
        """Lock those of these partitions that nobody holds, and raise their epochs.

        May be asked again for the others. Raises LostError.
        """
        try:
            if self._session is None:
                self._session = self._connected()
            held = self._take(self._session, ids, len(ids))
        except psycopg.Error as e:
            raise LostError(str(e).strip()) from e
        if held and self._thread is None:
            self._keep()
        return held

    def _keep(self) -> None:
        """Renew the lease from now on."""
        self._thread = threading.Thread(target=self._renew, name="lease", daemon=True)
        self._thread.start()

    def _take_share(self, session: Session) -> list[Owned]:
        """Take what is free, up to a share; where nothing is, wait for others to give it up."""
        until = time.monotonic() + CLAIM_SECONDS
        is_noted = False
        while True:
            runs = self.runs()
            held = self._take_first(session, self._free(session), runs)
            waits = not held and not self._doubted and self._has_share(runs)
            if (held or waits) and not is_noted:
                # Also where it waits: the next run that is wanted need not wait for this one.
                session.execute(sharing.IS_SERVED, [self.queue_id])
                is_noted = True
            if not waits or time.monotonic() > until or self.stop() is not None:
                return held
            time.sleep(CLAIM_EVERY_SECONDS)

    def _take_first(self, session: Session, free: Mapping[int, int], runs: Runs) -> list[Owned]:
        """Take what a run begins with of what is free."""
        return self._take(session, list(free.values()), first_share(runs, self.workers))

    def _has_share(self, runs: Runs) -> bool:
        """Return whether others have to give up something for this run."""
        return self.workers != 1 and share(runs, self.workers) > 0

    def _take_as_member(
        self, session: Session, assigned: Callable[[], Assignment | None]
    ) -> list[Owned]:
        """Take what a group assigned and is free; wait for both."""
        if not (self._free(session) or self._has_share(self.runs())):
            return []
        # Whichever run was asked for: the one that joins sees to it.
        session.execute(sharing.IS_SERVED, [self.queue_id])
        if joining.is_one_too_many(session, self.queue_id, self.workers):
            return []
        for _ in joining.attempts(self.stop):
            assignment, free = assigned(), self._free(session)
            if assignment is None:
                return self._take_first(session, free, self.runs())
            if held := self._take_of(session, free, assignment):
                return held
        if self._free(session):
            joining.leave_request(session, self.queue_id)
        return []

    def _free(self, session: Session) -> dict[int, int]:
        """Return the ids of the partitions that nobody holds, by their numbers."""
        return dict(session.execute(sharing.FREE, [self.queue_id]).fetchall())

    def _take_of(
        self, session: Session, free: Mapping[int, int], assignment: Assignment
    ) -> list[Owned]:
        ids = [id_ for partition, id_ in free.items() if partition in assignment.partitions]
        return self._take(session, ids, len(ids), assignment.member)

    def _take(
        self, session: Session, free: Sequence[int], most: int, member: str = ""
    ) -> list[Owned]:
        """Lock at most so many of these partitions (ids) and raise their epochs."""
        locked: list[int] = []
        for id_ in free:
            if len(locked) < most and id_ not in self._doubted and self._lock(session, id_):
                locked.append(id_)
        locked = self._settled(session, locked)
        if not locked:
            return []
        with django_connection().cursor() as cursor:
            lock, batch = backend_of(session.cursor()), backend_of(cursor)
        lease = {"owner": self.owner, "rescues": self.rescues, "member": member}
        lease |= {"lease": self.lease_seconds, "lock_pid": lock.pid, "lock_started": lock.started}
        lease |= {"batch_pid": batch.pid, "batch_started": batch.started}
        held = []
        for id_ in locked:
            owned = self._raise_epoch(session, id_, lease)
            owned.member = member
            # Rows of this partition, and for the lowest one those whose partition is gone.
            marked = {"partition": owned.partition, "lowest": owned.is_lowest}
            marked |= {"queue": self.queue_id, "epoch": owned.epoch, "hung": owned.suspect_hung}
            session.execute(REVERT, marked)
            held.append(owned)
        self._suspected += [owned for owned in held if owned.suspect_crashes]
        return held

    def _settled(self, session: Session, locked: list[int]) -> list[int]:
        """Leave those alone whose row a prepared transaction of their last owner still holds."""
        doubted = self._settle_left(session, locked) if locked else ()
        for id_ in doubted:
            session.execute(locks.RELEASE, [locks.LockClass.PARTITION, id_])
        self._doubted.update(doubted)
        return [id_ for id_ in locked if id_ not in doubted]

    def runs(self) -> Runs:
        row = self._asked(sharing.RUNS, {"queue": self.queue_id}).fetchone()
        return Runs(*row) if row is not None else Runs(0, 1, 0)

    def take_more(self, count: int) -> list[Owned]:
        if count <= 0 or self._session is None:
            return []
        left = self._asked(sharing.LEFT, {"queue": self.queue_id, "count": count}).fetchall()
        try:
            return self._take(self._session, [id_ for (id_,) in left], count)
        except psycopg.Error as e:
            raise LostError(str(e).strip()) from e

    def take_assigned(self, assignment: Assignment) -> list[Owned]:
        if self._session is None:
            return []
        try:
            return self._take_of(self._session, self._free(self._session), assignment)
        except psycopg.Error as e:
            raise LostError(str(e).strip()) from e

    def give_up(self, surplus: Sequence[Owned]) -> None:
        for suspect in _suspects_ahead(surplus):
            self._asked(KEEP_SUSPECT, suspect)
        self._asked(sharing.GIVE_UP, [self.owner, [owned.id for owned in surplus]])

    def ask_for_help(self) -> None:
        self._asked(sharing.ASK_FOR_HELP, [self.queue_id])

    def _asked(self, statement: str, parameters: Any) -> psycopg.Cursor[tuple[Any, ...]]:
        """Execute on the session that holds the locks. Raises LostError when it is gone."""
        if self._session is None:
            raise LostError
        try:
            return self._session.execute(statement, parameters)
        except psycopg.Error as e:
            raise LostError(str(e).strip()) from e

    def _lock(self, session: Session, partition_id: int) -> bool:
        key = [locks.LockClass.PARTITION, partition_id]
        if locks.take(session, key):
            return True
        expired = session.execute(EXPIRED, [partition_id]).fetchone()
        if expired is None:
            return False
        # The lease is over but the lock is not free: its owner is stopped, not dead.
        session.execute(TERMINATE, expired)
        return locks.take(session, key, tries=TAKEOVER_TRIES)

    def _raise_epoch(self, session: Session, id_: int, lease: Mapping[str, Any]) -> Owned:
        hangs = min(self.handler_timeout_seconds, self.lease_seconds * SOONEST_END_LEASES)
        parameters = {"queue": self.queue_id, "id": id_, "hangs": hangs, **lease}
        row = session.cursor(row_factory=dict_row).execute(TAKE, parameters).fetchone()
        if row is None:
            raise LostError("The partition's row is gone.")
        open_batch = _open_batch(row)
        ranges = tuple((first, end) for first, end in row["rescued"] or ())
        state = PartitionState(row["state"])
        return Owned(**row | {"state": state, "rescued": ranges, "open_batch": open_batch})

    def is_lost(self) -> bool:
        return self._lost

    def working(self) -> None:
        self._working_since[get_ident()] = time.monotonic()

    def resting(self) -> None:
        self._working_since.pop(get_ident(), None)

    def _worked_seconds(self) -> float | None:
        """Return how long the oldest call has been under way; None between calls."""
        # Other threads begin and end theirs meanwhile.
        since = list(self._working_since.values())
        return time.monotonic() - min(since) if since else None

    def _hangs(self, beyond_seconds: float = 0.0) -> bool:
        worked, most = self._worked_seconds(), self.handler_timeout_seconds + beyond_seconds
        return worked is not None and worked > most

    def _renew(self) -> None:
        """Renew until it is over; a call that hangs beyond its timeout loses the lease.

        One that ends its own process keeps the lease until then, and tells the next owner why.
        """
        while not self._over.wait(self.lease_seconds / 3):
            if self._hangs(0.0 if self._watchdog is None else self.lease_seconds):
                continue
            try:
                if self._session is None:
                    return
                values = [self.lease_seconds, self._hangs(), self._worked_seconds(), self.owner]
                self._session.execute(RENEW, values)
            except psycopg.Error:
                self._lost = True
                return

    def close(self, *, clean: bool) -> None:
        self._over.set()
        if self._watchdog is not None:
            self._watchdog.stop()
            self._watchdog = None
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        session, self._session = self._session, None
        if session is None:
            return
        try:
            if clean and not self._lost:
                session.execute(RELEASE, [self.owner])
                # Afterwards, as somebody may hold a row: the end is in good order all the same.
                for suspect in _suspects_ahead(self._suspected):
                    session.execute(KEEP_SUSPECT, suspect)
                # The server notices a closed session a moment later; who is asked to take over
                # in that moment would find the locks held.
                session.execute(locks.RELEASE_ALL)
        except psycopg.Error:
            # The session is gone and its locks with it; the next owner counts an unclean end.
            self._lost = True
        finally:
            session.close()
