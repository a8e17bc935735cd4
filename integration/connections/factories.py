"""Connection factories by their names, each with the pool of this process."""

import os
import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Final

from django.conf import settings

from integration.connections.errors import FactoryUnknownError
from integration.connections.pool import Lease, Limits, Pool
from integration.connections.session import Session
from integration.kafka.client import connection
from integration.kafka.sessions import KafkaConnection
from integration.models import ConnectionFactory
from integration.store.sessions import alias

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
        limits = Limits(
            least=row.least,
            most=row.most,
            idle_seconds=row.idle_seconds,
            wait_seconds=row.wait_seconds,
        )
        self._pool: Pool[KafkaConnection] = Pool(row.name, self._opened, limits)

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

    def leases(self) -> list[Lease]:
        """The connections that are out now, with the place in the code that took each."""
        return self._pool.leases()

    @property
    def idle(self) -> int:
        """How many connections nobody uses now."""
        return self._pool.idle

    def close(self) -> None:
        self._pool.close()

    def _opened(self) -> KafkaConnection:
        row = self._row
        # Nobody else has this id: a connection takes nothing over from another one.
        own = f"sluice.{settings.SLUICE_DEPLOYMENT}.{row.provider_id}.{row.name}.{uuid.uuid4()}"
        return KafkaConnection(
            row.name,
            connection(row.provider),
            _TUNING[row.goal],
            transactional_id=own if row.transactional else "",
        )


_factories: dict[str, Factory] = {}
_turn = threading.Lock()


def lookup(name: str) -> Factory:
    """Return the factory of that name, as it is set up now. Raises FactoryUnknownError.

    Connections that were made under earlier settings end as they are given back; those of a process
    that this one was forked from are left to it.
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
