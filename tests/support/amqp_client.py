"""The library's own client of AMQP 1.0, beside the product's use of it: reads and sends."""

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from proton import Delivery, Message, Timeout, symbol
from proton.reactor import Container, Copy, LinkOption
from proton.utils import BlockingConnection, BlockingReceiver

from bench.jms import AQueue

TIMEOUT_SECONDS: Final = 60
# Artemis may overhear a question that comes while it ends its work on the one before.
AGAIN_SECONDS: Final = 1


class ATopic(LinkOption):
    """Asks for a topic where the broker makes addresses by itself."""

    def apply(self, link: Any) -> None:
        end = link.target if link.is_sender else link.source
        end.capabilities.put_object(symbol("topic"))


def waiting(port: int, login: tuple[str, str], address: str) -> list[Message]:
    """All messages that wait at an address, in order; they stay there."""
    with connected(port, login) as connection:
        receiver = connection.create_receiver(address, credit=0, options=[Copy(), AQueue()])
        return all_there(connection, receiver)


def all_there(connection: BlockingConnection, receiver: BlockingReceiver) -> list[Message]:
    """All that the broker has for a receiver with a credit of 0: the broker says when that is all.

    Behind a large message Artemis says so too early, so it is asked until nothing more has come.
    """
    link, messages = receiver.link, []
    while True:
        _ask_for_all(connection, link)
        if not receiver.fetcher.has_message:
            return messages
        while receiver.fetcher.has_message:
            messages.append(receiver.fetcher.pop())


def _ask_for_all(connection: BlockingConnection, link: Any) -> None:
    link.drain(1_000)
    for _ in range(TIMEOUT_SECONDS):
        with suppress(Timeout):
            connection.wait(lambda: not (link.credit or link.queued), timeout=AGAIN_SECONDS)
            return
        link.drain(0)
    raise AssertionError("the broker does not say whether there is more")


def put(port: int, login: tuple[str, str], address: str, message_id: str) -> None:
    """Send a message with that id and nothing else."""
    with connected(port, login) as connection:
        sender = connection.create_sender(address, options=[AQueue()])
        sender.send(Message(id=message_id, durable=True, body=message_id))


def put_raw(port: int, login: tuple[str, str], address: str, data: bytes) -> None:
    """Send a message that is encoded already, or is none at all; returns once the broker has it."""
    with connected(port, login) as connection:
        sender = connection.create_sender(address, options=[AQueue()])
        delivery = sender.link.delivery("raw")
        sender.link.stream(data)
        sender.link.advance()
        connection.wait(lambda: delivery.settled)


def give_back(port: int, login: tuple[str, str], address: str) -> Message:
    """Take a message and say that it could not be dealt with: the broker counts that."""
    with connected(port, login) as connection:
        receiver = connection.create_receiver(address, credit=1, options=[AQueue()])
        message = receiver.receive(timeout=TIMEOUT_SECONDS)
        receiver.fetcher.unsettled[0].local.failed = True
        receiver.settle(Delivery.MODIFIED)
    return message


def put_texts(
    port: int, login: tuple[str, str], address: str, bodies: Iterable[Any], **fields: Any
) -> None:
    """Send each body as a text of JSON, or as it is, with ids from `first` on; None for no id."""
    first = fields.pop("first", 0)
    kind = ATopic() if fields.pop("to_topic", False) else AQueue()
    with connected(port, login) as connection:
        sender = connection.create_sender(address, options=[kind])
        for number, body in enumerate(bodies, first):
            text = body if isinstance(body, (str, bytes)) else json.dumps(body)
            values = {"id": f"m{number}", "durable": True, "body": text} | fields
            sender.send(Message(**values))


@contextmanager
def connected(
    port: int, login: tuple[str, str], *, container: str | None = None
) -> Iterator[BlockingConnection]:
    """A connection; brokers know durable subscriptions by its container's name."""
    user, password = login
    named = Container()
    named.container_id = container or named.container_id
    connection = BlockingConnection(
        f"127.0.0.1:{port}",
        timeout=TIMEOUT_SECONDS,
        container=named,
        user=user,
        password=password,
        allow_insecure_mechs=True,
        allowed_mechs="PLAIN",
    )
    try:
        yield connection
    finally:
        connection.close()
