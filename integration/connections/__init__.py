"""Connections to Kafka for applications: looked up by name, pooled, with or without transactions.

    with connections.lookup("payments").session() as session:
        session.send("payment-notices", notice, key="4711")

A session's end waits until Kafka has everything. In a handler use `publish()` instead: it belongs
to the handler's transaction, and these connections do not.
"""

from integration.connections.errors import (
    FactoryUnknownError,
    PoolClosedError,
    PoolExhaustedError,
)
from integration.connections.factories import Factory, close_all, lookup
from integration.connections.recovery import FactoryRecovered, recover_all, recover_each
from integration.connections.session import BranchSession, Session
from integration.kafka.errors import NotTransactionalError, SendFailedError

__all__ = [
    "BranchSession",
    "Factory",
    "FactoryRecovered",
    "FactoryUnknownError",
    "NotTransactionalError",
    "PoolClosedError",
    "PoolExhaustedError",
    "SendFailedError",
    "Session",
    "close_all",
    "lookup",
    "recover_all",
    "recover_each",
]
