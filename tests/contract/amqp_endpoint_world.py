"""The world of an endpoint at a JMS broker: a real one, over a wire that can be made to swallow."""

from pathlib import Path
from typing import ClassVar

from integration.endpoint_types.opening import opened
from integration.endpoints.port import Answer, Deliverer, Later, OutboundMessage, Refused, Unknown
from tests.contract.endpoint_worlds import EndpointWorld, an_endpoint, an_outbound_message
from tests.support.amqp import Broker
from tests.support.swallowing_proxy import SwallowingProxy


class AmqpWorld(EndpointWorld):
    # This broker gives nothing back that it was sent.
    never = frozenset({Later})
    broker: ClassVar[Broker]

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.wire = SwallowingProxy(self.broker.port)
        self.port = self.wire.port
        self.properties = self.broker.properties(at_once=3, connect_seconds=3, answer_seconds=2)

    def make(self) -> Deliverer:
        properties = {**self.properties, "port": self.port}
        return opened(an_endpoint("amqp", properties, password=self.broker.server.password))

    def spoiled(self, message_id: str, ending: type[Answer]) -> OutboundMessage | None:
        if ending is Refused:
            return an_outbound_message(message_id, body=b"\xff")
        if ending is Unknown:
            return self.endless(message_id)
        if ending is Later:
            return None
        self.wire.swallows.set()
        return an_outbound_message(message_id)

    def endless(self, message_id: str) -> OutboundMessage | None:
        """Nothing is heard any more once the message is on its way."""
        # With the type and length that AMQP puts before a short text: so short an id alone is
        # found in one of a few hundred passwords, too, and then nobody gets connected.
        self.wire.begins_at = bytes((0xA1, len(message_id))) + message_id.encode()
        return an_outbound_message(message_id)

    def mend(self) -> None:
        self.wire.begins_at = b""
        self.wire.swallows.clear()

    def breaks(self) -> bool:
        self.wire.close()
        return True

    def arrived(self) -> list[str]:
        return [str(message.id) for message in self.broker.received(self.properties["address"])]

    def close(self) -> None:
        super().close()
        self.wire.close()
