"""Connection factories by their names, each with the pool of this process."""

import os
import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Final

from django.db import DEFAULT_DB_ALIAS

from integration.connections.errors import FactoryUnknownError
from integration.connections.pool import Lease, Limits, Pool
from integration.connections.session import BranchSession, Session
from integration.kafka.client import connection
from integration.kafka.sessions import KafkaConnection
from integration.kafka.slots import Slot
from integration.models import ConnectionFactory
from integration.store.sessions import alias
from integration.xa import data_managers, decisions
from integration.xa.opening import opened, prefix_of
from integration.xa.resource import XaResource

# Properties of producers, unless the provider sets them. What Kafka has confirmed is in every
# in-sync copy with each of them.
_TUNING: Final[Mapping[str, Mapping[str, Any]]] = {
    ConnectionFactory.Goal.LATENCY: {"linger.ms": 0},
    ConnectionFactory.Goal.BALANCED: {},
    ConnectionFactory.Goal.THROUGHPUT: {"linger.ms": 50, "batch.size": 1_000_000},
}


class Factory:
    """What `lookup` gives: safe for several threads, and of one process."""

    def __init__(self, row: ConnectionFactory) -> None:
        self.name = row.name
        self.process = os.getpid()
        self.as_of = marks_of(row)
        self._row = row
        self._resource: XaResource | None = None
        self._turn = threading.Lock()
        limits = Limits(
            least=row.least,
            most=row.most,
            idle_seconds=row.idle_seconds,
            wait_seconds=row.wait_seconds,
        )
        self._pool: Pool[KafkaConnection] = Pool(row.name, self._opened, limits)
        self._slots: Pool[Slot] = Pool(row.name, self._slot, limits)

    @contextmanager
    def session(self) -> Iterator[Session]:
        """A session with a connection of the pool; its end commits, or waits for everything.

        After an error inside, a transaction is taken back. Raises PoolExhaustedError,
        SendFailedError, ProviderUnusableError, BrokerUnreachableError.
        """
        with self._pool.taken() as taken:
            session = Session(taken)
            try:
                yield session
            except BaseException:
                if taken.is_transactional:
                    session.rollback()
                raise
            session.end()

    @contextmanager
    def atomic(self, using: str = DEFAULT_DB_ALIAS) -> Iterator[BranchSession]:
        """A transaction of the database that Kafka takes part in: both commit, or neither does.

        What is sent is kept here until the block has ended, and is visible once the database has
        committed. Raises XaOffError, XaRolledBackError, XaUnavailableError and other errors with
        a code, and DatabaseError; after each of them nothing was committed, unless the answer to
        the database's own commit was lost.
        """
        resource = self.xa()
        with decisions.atomic(resource, using) as xid:
            yield BranchSession(resource, xid)

    def join(self, manager: Any, using: str | None = None) -> BranchSession:
        """Take part in the current transaction of a manager of the package `transaction`.

        With `using`, a transaction of that database of Django takes part, too, and decides.
        """
        resource = self.xa()
        return BranchSession(resource, data_managers.join(manager, resource, using))

    def xa(self) -> XaResource:
        """The resource for a coordinator of transactions. Raises XaOffError."""
        with self._turn:
            if self._resource is None:
                self._resource = opened(self._row, _TUNING[self._row.goal], self._slots.taken)
            return self._resource

    def leases(self) -> list[Lease]:
        """The connections that are out now, with the place in the code that took each."""
        return [*self._pool.leases(), *self._slots.leases()]

    @property
    def idle(self) -> int:
        """How many connections nobody uses now."""
        return self._pool.idle + self._slots.idle

    def close(self) -> None:
        self._pool.close()
        self._slots.close()
        with self._turn:
            resource, self._resource = self._resource, None
        if resource is not None:
            resource.close()

    def _opened(self) -> KafkaConnection:
        row = self._row
        own = self._fresh_id() if row.transactional else ""
        return KafkaConnection(
            row.name, connection(row.provider), _TUNING[row.goal], transactional_id=own
        )

    def _slot(self) -> Slot:
        row = self._row
        return Slot(row.name, connection(row.provider), _TUNING[row.goal], self._fresh_id())

    def _fresh_id(self) -> str:
        """Nobody else has it: a connection takes nothing over from another one."""
        return f"{prefix_of(self._row)}{self.name}.{uuid.uuid4()}"


_factories: dict[str, Factory] = {}
_turn = threading.Lock()


def lookup(name: str) -> Factory:
    """Return the factory of that name, as it is set up now. Raises FactoryUnknownError.

    Connections that were made under earlier settings end as they are given back, and what an
    earlier `lookup` gave makes no more: PoolClosedError. Those of a process that this one was
    forked from are left to it.
    """
    rows = ConnectionFactory.objects.using(alias()).select_related("provider")
    row = rows.filter(name=name).first()
    if row is None:
        known = rows.values_list("name", flat=True).order_by("name")
        raise FactoryUnknownError(name, list(known[:10]))
    with _turn:
        known_one = _factories.get(name)
        is_own = known_one is not None and known_one.process == os.getpid()
        if is_own and known_one is not None and known_one.as_of == marks_of(row):
            return known_one
        made = _factories[name] = Factory(row)
    if is_own and known_one is not None:
        known_one.close()
    return made


def close_all() -> None:
    """End the connections of this process that nobody uses now, and make no more."""
    with _turn:
        factories = [one for one in _factories.values() if one.process == os.getpid()]
        _factories.clear()
    for factory in factories:
        factory.close()


def marks_of(row: ConnectionFactory) -> tuple[datetime, tuple[Any, ...]]:
    """What changes when the factory or its provider does."""
    provider = row.provider
    return row.changed_at, tuple(
        getattr(provider, field.attname)
        for field in provider._meta.concrete_fields
        if field.name != "idle_watched_at"
    )
