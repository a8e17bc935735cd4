"""What a broker's words come to on a connection."""

import pytest
from proton import Connection as Engine
from proton import Transport

from integration.amqp.connection import AmqpConnection, Caller, has_address

pytestmark = pytest.mark.fast


class Place:
    """A source or target as the engine tells of it."""

    def __init__(self, raw: bytes | None) -> None:
        self.raw = raw

    @property
    def address(self) -> str | None:
        return None if self.raw is None else self.raw.decode()


@pytest.mark.parametrize(
    ("raw", "has"), [(None, False), (b"", True), (b"in", True), (b"\xe4", True)]
)
def test_an_address_is_one_also_where_it_is_no_utf_8(raw: bytes | None, has: bool) -> None:
    assert has_address(Place(raw)) is has


class Flood:
    """A broker that opens what it is asked to, and sends empty frames without an end."""

    MOST = 200_000

    def __init__(self) -> None:
        self.reads = 0
        self.transport = Transport(Transport.SERVER)
        self.transport.sasl().allowed_mechs("ANONYMOUS")
        self.engine = Engine()
        self.transport.bind(self.engine)
        self.engine.open()

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self.transport.push(buffer)

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        self.reads += 1
        pending = min(self.transport.pending(), max_bytes)
        if pending <= 0:
            return b"\x00\x00\x00\x08\x02\x00\x00\x00"
        data = self.transport.peek(pending)
        self.transport.pop(len(data))
        return data

    def get_extra_info(self, info: str) -> bool:
        return self.reads < self.MOST

    def close(self) -> None:
        pass


def test_to_hear_ends_also_where_the_broker_never_does(monkeypatch) -> None:
    monkeypatch.setattr("integration.amqp.connection.HEAR_SECONDS", 0.05, raising=False)
    broker = Flood()
    connection = AmqpConnection(broker, Caller("c"), host="h", seconds=5.0)
    connection.hear()
    assert 0 < broker.reads < broker.MOST
    connection.close()
