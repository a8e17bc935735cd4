"""Makes the resource of a connection factory, as the factory is set up."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

from django.conf import settings

from integration.kafka.client import Connection, connection
from integration.kafka.slots import Slot
from integration.models import ConnectionFactory
from integration.xa.branch import Branch
from integration.xa.database_log import DatabaseLog
from integration.xa.errors import XaOffError
from integration.xa.home import Home
from integration.xa.ports import TransactionLog
from integration.xa.resource import XaResource
from integration.xa.seen import SeenLog
from integration.xa.side_topic import SideTopic
from integration.xa.stalled import Stalls
from integration.xa.topic_log import TopicLog

Taken = Callable[[], AbstractContextManager[Slot]]


def prefix_of(row: ConnectionFactory) -> str:
    """What all transactional ids begin with by which the installation writes to the provider."""
    return f"sluice.{settings.SLUICE_DEPLOYMENT}.{row.provider_id}."


class FactorySlots:
    """Implements integration.xa.ports.Slots for one factory."""

    def __init__(self, name: str, to: Connection, tuning: Mapping[str, Any], taken: Taken) -> None:
        self._name, self._to, self._tuning, self._taken = name, to, tuning, taken

    def taken(self) -> AbstractContextManager[Slot]:
        return self._taken()

    def is_ours(self, owner: str) -> bool:
        # Whatever a deployment is called: the last three parts are provider, factory and a UUID.
        return owner.rsplit(".", 3)[0] == f"sluice.{settings.SLUICE_DEPLOYMENT}"

    def of(self, owner: str) -> Slot:
        return Slot(self._name, self._to, self._tuning, owner)


def opened(row: ConnectionFactory, tuning: Mapping[str, Any], taken: Taken) -> XaResource:
    """Nothing is asked yet. Raises XaOffError, ProviderUnusableError."""
    to = connection(row.provider)
    side = SideTopic(row.provider, to, row.xa_side_topic)
    slots = FactorySlots(row.name, to, tuning, taken)
    return XaResource(Home.of(row), _log_of(row, to, side), side, slots, row.xa_expires_seconds)


def branches_of(row: ConnectionFactory) -> list[Branch]:
    """What is in the log, also where the side topic is not what it has to be.

    Raises XaTopicMissingError, XaLogReplacedError, XaUnavailableError, XaOffError,
    BrokerUnreachableError, ProviderUnusableError.
    """
    to = connection(row.provider)
    log = _log_of(row, to, SideTopic(row.provider, to, row.xa_side_topic))
    try:
        return log.branches()
    finally:
        log.close()


def _log_of(row: ConnectionFactory, to: Connection, side: SideTopic) -> TransactionLog:
    stalls = Stalls(row.name, to, prefix_of(row))
    match row.xa:
        case ConnectionFactory.XaLog.TOPIC:
            seen = SeenLog(row.pk, row.xa_log_topic)
            return TopicLog(row.provider, to, row.xa_log_topic, stalls, seen)
        case ConnectionFactory.XaLog.DATABASE:
            return DatabaseLog(row.name, row.pk, side, stalls)
        case _:
            raise XaOffError(row.name)
