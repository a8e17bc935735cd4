"""A real JMS broker, one for all tests of a tester, and what a receiver gets from it."""

import shutil
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from devstack import ports
from devstack.artemis import USER, Artemis
from devstack.certificates import Authority

if TYPE_CHECKING:
    from proton import Message


class Broker:
    """The broker, its TLS, and receivers of what it has."""

    def __init__(self, folder: Path) -> None:
        self.authority = Authority()
        issued = self.authority.server("localhost", "127.0.0.1")
        self.tls_port = ports.choose()
        tls = issued.certificate, issued.key, self.tls_port
        self.server = Artemis(folder, ports.choose(), tls=tls)

    @property
    def port(self) -> int:
        return self.server.port

    def properties(self, **more: Any) -> dict[str, Any]:
        """What an endpoint at this broker has; the address is a new queue."""
        return {
            "host": "127.0.0.1",
            "port": self.port,
            "username": USER,
            "private_network": True,
            "address": f"orders-{uuid.uuid4()}",
            "connect_seconds": 20,
            "answer_seconds": 30,
            **more,
        }

    def kill(self) -> None:
        """End it by SIGKILL; returns when nobody is connected to it any more."""
        self.server.kill()
        while self.server.is_answering():
            time.sleep(0.05)

    def received(self, address: str) -> "list[Message]":
        """All messages that wait at an address, in order; they stay there."""
        # Only where the library is installed.
        from tests.support import amqp_client  # noqa: PLC0415

        return amqp_client.waiting(self.port, (USER, self.server.password), address)

    def put(self, address: str, message_id: str) -> None:
        """Send a message as any client would, without the property by which repeats are known."""
        from tests.support import amqp_client  # noqa: PLC0415

        amqp_client.put(self.port, (USER, self.server.password), address, message_id)


@pytest.fixture(scope="session")
def amqp_broker() -> Iterator[Broker]:
    folder = Path(tempfile.mkdtemp(prefix="sluice-tests-artemis-"))
    broker = Broker(folder)
    try:
        broker.server.start()
        yield broker
    finally:
        broker.server.kill()
        shutil.rmtree(folder, ignore_errors=True)
