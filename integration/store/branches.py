"""Prepared transactions of the database: how a batch becomes one, and those that were left."""

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import psycopg
from django.conf import settings
from django.db import DatabaseError
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg import sql
from psycopg.errors import UndefinedObject

from integration.delivery.batch_result import BatchResult
from integration.delivery.owned import Owned
from integration.delivery.ports import LostError
from integration.delivery.snapshot import QueueSnapshot
from integration.delivery.two_phase import NotPublishedError, TwoPhase
from integration.policy.branches import Branch, Decision, branch_named, prefix
from integration.policy.failure import Failure, FailureClass
from integration.policy.states import OutboxKind
from integration.store.sessions import Session, fetch_all
from integration.store.unit_of_work import DatabaseUnitOfWork
from integration.values import Outgoing

_VERBS: Final = {Decision.COMMIT: "COMMIT PREPARED", Decision.ROLLBACK: "ROLLBACK PREPARED"}
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
_NO_ROOM: Final = Failure(
    FailureClass.OUTAGE,
    "PREPARE_REFUSED",
    "PostgreSQL prepares no more transactions. Set its max_prepared_transactions to twice the "
    "number of runs at least and start it again, or switch the queue's two-phase commit off.",
)
FAILURES: Final = {
    "53200": _NO_ROOM,  # as many as there may be stand open
    "55000": _NO_ROOM,  # none are allowed
    "0A000": Failure(
        FailureClass.PERMANENT,
        "NOT_PREPARABLE",
        "The handler did what no prepared transaction can hold: it used a temporary table, LISTEN "
        "or NOTIFY, or a cursor WITH HOLD. Change it, or switch the queue's two-phase commit off.",
    ),
}


@dataclass(frozen=True, slots=True)
class Left:
    """A branch that stands prepared now."""

    branch: Branch
    prepared_at: datetime
    seconds: float


class TwoPhaseWork(DatabaseUnitOfWork):
    """A unit of work whose commit is Kafka's: see delivery.two_phase."""

    def __init__(
        self,
        connection: BaseDatabaseWrapper,
        queue: QueueSnapshot,
        owned: Owned,
        two_phase: TwoPhase,
    ) -> None:
        super().__init__(connection, queue, owned)
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

    def end(self) -> None:
        super().end()
        if self.settled and self._published:
            branch = Branch(
                settings.SLUICE_DEPLOYMENT,
                self.queue.id,
                self.owned.partition,
                self._next_offset,
                self.owned.epoch,
                self.batch,
            )
            self._two_phase.commit(branch, self._published, self)

    def prepare(self, branch: Branch) -> None:
        try:
            result = self._frame(_statement("PREPARE TRANSACTION", branch, self.raw))
        except DatabaseError as e:
            failure = FAILURES.get(getattr(e.__cause__, "sqlstate", None) or "")
            if failure is None:
                raise
            raise NotPublishedError(failure) from e
        if result.command_status != b"PREPARE TRANSACTION":
            # A transaction that was spoilt is rolled back, and no error is raised.
            raise LostError("The transaction could not be prepared.")

    def finish(self, branch: Branch, decision: Decision) -> None:
        self._frame(_statement(_VERBS[decision], branch, self.raw))


def left() -> list[Left]:
    """Return this deployment's branches that stand prepared, the oldest first.

    Those of runs that are between the two commits at this moment are among them. Raises
    DatabaseError.
    """
    rows = fetch_all(LEFT, [prefix(settings.SLUICE_DEPLOYMENT)])
    named = [(branch_named(gid), at, seconds) for gid, at, seconds in rows]
    return [Left(branch, at, seconds) for branch, at, seconds in named if branch is not None]


def finish(session: Session, branch: Branch, decision: Decision) -> None:
    """Commit a branch that was left, or roll it back; one that is gone already is done.

    Raises psycopg.Error.
    """
    with suppress(UndefinedObject):
        session.execute(_statement(_VERBS[decision], branch, session))


def settle_left(
    session: Session, partitions: Sequence[int], decide: Callable[[Branch], Decision]
) -> Collection[int]:
    """Settle what earlier owners of these partitions (ids) left; return those still in doubt.

    Whoever calls this holds their locks: nobody prepares anything for them any more once `decide`
    has shut the last owner out. Raises psycopg.Error.
    """
    name = prefix(settings.SLUICE_DEPLOYMENT)
    doubted = set()
    for gid, partition in session.execute(LEFT_OF, [name, list(partitions)]).fetchall():
        branch = branch_named(gid)
        decision = Decision.UNKNOWN if branch is None else decide(branch)
        if branch is None or decision is Decision.UNKNOWN:
            doubted.add(partition)
        else:
            finish(session, branch, decision)
    return doubted


def _statement(verb: str, branch: Branch, session: psycopg.Connection[Any]) -> bytes:
    return sql.SQL("{} {}").format(sql.SQL(verb), sql.Literal(str(branch))).as_bytes(session)
