"""The in-memory fake of one transaction."""

import uuid
from collections.abc import Mapping, Sequence
from typing import Final
from uuid import UUID

import psycopg
from django.db import DatabaseError, DataError, IntegrityError, InternalError, OperationalError
from psycopg import errors as pg

from integration.delivery.batch_result import Applied, BatchResult
from integration.delivery.owned import Owned
from integration.values import content_hash
from tests.support.memory.tables import Batch, MemoryDatabase

LOST: Final = "The fake's session was broken."
LONGEST_TOPIC: Final = 249


class MemoryUnitOfWork:
    """See ports.Work. Nothing reaches the tables before the commit; claimed rows stay locked."""

    def __init__(self, database: MemoryDatabase, owned: Owned) -> None:
        self.database = database
        self.owned = owned
        self.lost = self.aborted = self.abandoned = self.has_locked = False
        self.claimed: set[UUID] = set()
        self._orphans = 0
        self._kept = (0, 0)
        self.statement("begin")
        in_work = owned.in_work
        self.arrival = next(database.arrivals) if in_work is None else in_work.arrival
        self.batch = Batch(uuid.uuid4(), self.arrival)

    def statement(self, name: str) -> None:
        """What every statement meets: a broken session, or a transaction that is spoilt."""
        if self.database.interrupt(name):
            self.lost = True
        if self.lost:
            raise OperationalError(LOST) from psycopg.OperationalError(LOST)
        if self.aborted and name != "undo":
            raise InternalError("spoilt") from pg.InFailedSqlTransaction("spoilt")

    def refuse(self, cause: psycopg.Error) -> None:
        """A statement that the server refuses: the transaction is spoilt until it is undone."""
        self.statement("refuse")
        self.aborted = True
        raise DatabaseError("refused") from cause

    def effect(self, value: object, *, orphan: bool) -> None:
        self.statement("effect")
        self.batch.effects.append(value)
        self._orphans += orphan

    def savepoint(self) -> None:
        self.statement("savepoint")
        self._keep()

    def keep(self) -> None:
        self.check()
        self._keep()

    def _keep(self) -> None:
        self._kept = (len(self.batch.effects), self._orphans)

    def undo(self) -> None:
        self.statement("undo")
        self.aborted = False
        effects, self._orphans = self._kept
        del self.batch.effects[effects:]

    def check(self) -> None:
        self.statement("check")
        if self._orphans:
            self.aborted = True
            raise IntegrityError("orphan") from pg.ForeignKeyViolation("orphan")

    def abandon(self) -> None:
        self.abandoned = True

    def is_broken(self) -> bool:
        return self.aborted or self.lost

    def is_lost(self) -> bool:
        return self.lost

    def seen(self, ids: Sequence[str]) -> Mapping[str, frozenset[bytes]]:
        self.statement("seen")
        rows = self.database.open_rows()
        known = [(r.message_id, content_hash(r.record.value)) for r in rows]
        known += [(id_, first.content) for id_, first in self.database.seen.items()]
        found = {id_: frozenset(value for of, value in known if of == id_) for id_ in ids}
        return {id_: hashes for id_, hashes in found.items() if hashes}

    def applied(self, ids: Sequence[str]) -> Mapping[str, Applied]:
        self.statement("applied")
        return {id_: first for id_, first in self.database.seen.items() if id_ in ids}

    def claim(self, ids: Sequence[tuple[UUID, int]]) -> frozenset[UUID]:
        self.statement("claim")
        rows = self.database.errors
        found = {id_ for id_, version in ids if id_ in rows and rows[id_].version == version}
        self.claimed |= found
        self.database.locked |= found
        return frozenset(found)

    def settle(self, batch_result: BatchResult) -> bool:
        self.statement("settle")
        if any(len(row.topic) > LONGEST_TOPIC for row in batch_result.outgoing):
            self.aborted = True
            raise DataError("value too long") from pg.StringDataRightTruncation("value too long")
        while self.database.place(self.owned).locked:
            self.database.others_first()
        closed = batch_result.closed
        goes_to = batch_result.next_offset if closed is None else max(closed, default=-1) + 1
        if not self.database.keeps_stop(self.owned, goes_to):
            return False
        must_be_new = {id_ for id_, _, is_new in batch_result.seen if is_new}
        if self.database.is_owned(self.owned) and must_be_new & self.database.seen.keys():
            self.aborted = True
            raise OperationalError("applied") from pg.SerializationFailure("applied")
        self.database.place(self.owned).locked = self.has_locked = True
        self.batch.batch_result = batch_result
        return True

    def commit(self) -> None:
        """What ends the block. Raises what PostgreSQL would refuse the commit with."""
        if self.abandoned or self.aborted or self.batch.batch_result is None:
            return
        self.check()
        # Whoever took the partition over since has ended this session first.
        self.lost = self.lost or not self.database.is_owned(self.owned)
        self.statement("commit")
        self.database.commit(self.owned, self.batch)
        self.statement("answer")
