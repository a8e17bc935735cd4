"""The library's own client of AMQP 1.0, beside the product's use of it: reads and sends."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from proton import Message, Timeout
from proton.reactor import Copy
from proton.utils import BlockingConnection

from bench.jms import AQueue

TIMEOUT_SECONDS: Final = 10
# Nothing more comes for so long.
QUIET_SECONDS: Final = 0.3


def waiting(port: int, login: tuple[str, str], address: str) -> list[Message]:
    """All messages that wait at an address, in order; they stay there."""
    messages = []
    with _connected(port, login) as connection:
        receiver = connection.create_receiver(address, credit=1_000, options=[Copy(), AQueue()])
        try:
            while True:
                messages.append(receiver.receive(timeout=QUIET_SECONDS))
        except Timeout:
            return messages


def put(port: int, login: tuple[str, str], address: str, message_id: str) -> None:
    """Send a message with that id and nothing else."""
    with _connected(port, login) as connection:
        sender = connection.create_sender(address, options=[AQueue()])
        sender.send(Message(id=message_id, durable=True, body=message_id))


@contextmanager
def _connected(port: int, login: tuple[str, str]) -> Iterator[BlockingConnection]:
    user, password = login
    connection = BlockingConnection(
        f"127.0.0.1:{port}",
        timeout=TIMEOUT_SECONDS,
        user=user,
        password=password,
        allow_insecure_mechs=True,
        allowed_mechs="PLAIN",
    )
    try:
        yield connection
    finally:
        connection.close()
