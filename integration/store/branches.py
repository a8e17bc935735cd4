"""Prepared transactions of the database: how a batch becomes one, and those that were left."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.conf import settings
from django.db import DatabaseError, InterfaceError
from django.db.backends.base.base import BaseDatabaseWrapper

from integration.delivery.batch_result import BatchResult
from integration.delivery.owned import Owned
from integration.delivery.snapshot import QueueSnapshot
from integration.delivery.two_phase import InDoubtError, Preparable, TwoPhase
from integration.policy.branches import Branch, Decision, branch_of, prefix
from integration.policy.states import OutboxKind
from integration.store import prepared
from integration.store.second_database import SecondTransaction
from integration.store.sessions import Session, fetch_all
from integration.store.unit_of_work import DatabaseUnitOfWork
from integration.values import Outgoing

# Names are of the whole server: those of other databases cannot be finished here.
LEFT: Final = """
SELECT x.gid, x.prepared, extract(epoch FROM clock_timestamp() - x.prepared)::float8
FROM pg_prepared_xacts x
WHERE x.database = current_database() AND starts_with(x.gid, %s)
ORDER BY x.prepared
"""
LEFT_OF: Final = """
SELECT x.gid, p.id FROM pg_prepared_xacts x JOIN integration_queuepartition p
  ON starts_with(x.gid, %s || p.queue_id || ':' || p.partition || ':')
WHERE x.database = current_database() AND p.id = ANY(%s)
"""


@dataclass(frozen=True, slots=True)
class Left:
    """A branch that stands prepared now."""

    branch: Branch
    prepared_at: datetime
    seconds: float


class TwoPhaseWork(DatabaseUnitOfWork):
    """A unit of work whose commit is Kafka's: see delivery.two_phase.

    What its handlers write to the `second` database is part of it.
    """

    def __init__(
        self,
        connection: BaseDatabaseWrapper,
        queue: QueueSnapshot,
        owned: Owned,
        two_phase: TwoPhase,
        second: SecondTransaction,
    ) -> None:
        super().__init__(connection, queue, owned)
        self._second = second
        self._two_phase = two_phase
        self._published: list[Outgoing] = []
        self._next_offset = owned.next_offset

    def settle(self, batch_result: BatchResult) -> bool:
        published = [row for row in batch_result.outgoing if self._goes_along(row)]
        if published:
            rest = [row for row in batch_result.outgoing if not self._goes_along(row)]
            batch_result.outgoing, self._published = rest, published
        self._next_offset = batch_result.next_offset
        return super().settle(batch_result)

    def _goes_along(self, row: Outgoing) -> bool:
        """Return whether Kafka's transaction of this batch may carry it.

        Not what goes to another cluster, is due later, or waits for a sequential queue's turn.
        """
        is_message = row.kind == OutboxKind.MESSAGE and row.provider_id == self.queue.provider_id
        return is_message and row.strict_queue is None and not row.delay_seconds

    def savepoint(self) -> None:
        super().savepoint()
        self._second.savepoint()

    def keep(self) -> None:
        # Only what both would keep is kept: from then on neither can go back to before.
        self._second.try_keep()
        super().keep()
        self._second.renew()

    def undo(self) -> None:
        super().undo()
        self._second.undo()

    def check(self) -> None:
        super().check()
        self._second.check()

    def abandon(self) -> None:
        super().abandon()
        self._second.abandon()

    def is_broken(self) -> bool:
        return super().is_broken() or self._second.is_broken()

    def is_lost(self) -> bool:
        return super().is_lost() or self._second.is_lost()

    def end(self) -> None:
        super().end()
        if not self.settled:
            return
        written = self._second.written()
        if not self._published and written is None:
            return
        branch = Branch(
            settings.SLUICE_DEPLOYMENT,
            self.queue.id,
            self.owned.partition,
            self._next_offset,
            self.owned.epoch,
            self.arrival,
            self.batch,
            written,
        )
        both: list[Preparable] = [self] if written is None else [self, self._second]
        self._two_phase.commit(branch, self._published, both)

    def prepare(self, branch: Branch) -> None:
        prepared.prepare(self, str(branch))

    def finish(self, branch: Branch, decision: Decision) -> None:
        try:
            prepared.finish(self, str(branch), decision)
        except (DatabaseError, InterfaceError) as e:
            raise InDoubtError(branch, str(e).strip()) from e


def left() -> list[Left]:
    """Return this deployment's branches that stand prepared, the oldest first.

    Those of runs that are between the two commits at this moment are among them. Raises
    DatabaseError.
    """
    own = settings.SLUICE_DEPLOYMENT
    rows = fetch_all(LEFT, [prefix(own)])
    named = [(branch_of(own, gid), at, seconds) for gid, at, seconds in rows]
    return [Left(branch, at, seconds) for branch, at, seconds in named if branch is not None]


def settle_left(
    session: Session, partitions: Sequence[int], decide: Callable[[Branch], Decision]
) -> Collection[int]:
    """Settle what earlier owners of these partitions (ids) left; return those still in doubt.

    Whoever calls this holds their locks: nobody prepares anything for them any more once `decide`
    has shut the last owner out. Raises psycopg.Error.
    """
    own = settings.SLUICE_DEPLOYMENT
    doubted = set()
    for gid, partition in session.execute(LEFT_OF, [prefix(own), list(partitions)]).fetchall():
        branch = branch_of(own, gid)
        if branch is None:
            continue
        decision = decide(branch)
        if decision is Decision.UNKNOWN:
            doubted.add(partition)
        else:
            prepared.finish_left(session, str(branch), decision)
    return doubted
