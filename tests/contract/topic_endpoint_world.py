"""Another topic of Kafka as an endpoint, for the contract suite of endpoints."""

import threading
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from django.db import connections

from integration.endpoint_types.kafka.endpoint import KafkaEndpoint
from integration.endpoint_types.kafka.properties import KafkaProperties
from integration.endpoints.port import (
    Answer,
    Deliverer,
    Later,
    OutboundMessage,
    Refused,
    Unknown,
    Unreachable,
)
from integration.models import OutboxRow, Provider
from tests.contract.endpoint_worlds import EndpointWorld, an_outbound_message
from tests.support.kafka_world import Kafka


@lru_cache(maxsize=1)
def _a_topic(bootstrap: str) -> str:
    """One for all tests: nothing is written to it."""
    return Kafka(bootstrap).topic()


class LeavingNothing(KafkaEndpoint):
    """The endpoint, called by threads that end without a connection of Django's."""

    def deliver(self, messages: Sequence[OutboundMessage]) -> Sequence[Answer]:
        try:
            return super().deliver(messages)
        finally:
            if threading.current_thread() is not threading.main_thread():
                connections.close_all()


class TopicWorld(EndpointWorld):
    """The topic's reader drops repeats by the message id; what it reads is in the outbox."""

    never = frozenset({Refused, Later, Unknown})
    never_endless = True
    # Of the broker of the tests; set before it is made.
    bootstrap = ""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        Provider.objects.create(name="world", bootstrap_servers=self.bootstrap)

    def make(self) -> Deliverer:
        return LeavingNothing(KafkaProperties(provider="world", topic=_a_topic(self.bootstrap)))

    def spoiled(self, message_id: str, ending: type[Answer]) -> OutboundMessage | None:
        if ending is Unreachable:
            self.breaks()
            return an_outbound_message(message_id)
        return None

    def breaks(self) -> bool:
        Provider.objects.update(name="gone")
        return True

    def mend(self) -> None:
        Provider.objects.update(name="world")

    def arrived(self) -> list[str]:
        rows = OutboxRow.objects.order_by("id").values_list("message_id", flat=True)
        return list(dict.fromkeys(rows))
