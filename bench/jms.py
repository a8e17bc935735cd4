"""A JMS broker beside a benchmark: started, and asked how many messages it has."""

from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from proton import Message, symbol
from proton.handlers import MessagingHandler
from proton.reactor import Container, LinkOption

from bench.workload import assets
from devstack import ports
from devstack.artemis import USER, Artemis

# Nothing more comes for so long.
QUIET_SECONDS: Final = 0.5
# A broker that says nothing for so long is away.
SILENT_SECONDS: Final = 10.0
# A message: its id and its text.
Text = tuple[str, str]


@contextmanager
def broker(folder: Path) -> Iterator[Artemis]:
    """Start one that survives what production's would."""
    server = Artemis(folder / "jms", ports.choose(), durable=True)
    server.start()
    try:
        yield server
    finally:
        server.kill()


def taken(server: Artemis, address: str) -> list[str]:
    """Take all messages of a queue; their ids, in order."""
    taker = _Taker(f"127.0.0.1:{server.port}", server.password, address)
    Container(taker).run()
    return taker.ids


def fill(server: Artemis, address: str, count: int) -> None:
    """Put so many messages into a queue, each with an id of its own. Raises ConnectionError."""
    bodies = enumerate(assets(count, count))
    messages = [(f"{address}-{number}", body.decode()) for number, body in bodies]
    if any(send(server, address, messages)):
        raise ConnectionError("the broker has not taken every message")


def login(server: Artemis) -> dict[str, object]:
    """The broker as `bench_configure` takes it."""
    return {"port": server.port, "user": USER, "password": server.password}


def endpoint(name: str, server: Artemis, address: str, **more: object) -> dict[str, object]:
    """An endpoint at a queue of the broker, as `bench_endpoint` takes it."""
    return {
        "name": name,
        "endpoint_type": "amqp",
        "properties": {
            "host": "127.0.0.1",
            "port": server.port,
            "username": USER,
            "private_network": True,
            "address": address,
            **more,
        },
        "secrets": {"password": server.password},
    }


class Left(NamedTuple):
    """Messages that the broker did not say to have: it may have those that it was sent."""

    unanswered: list[Text]
    unsent: list[Text]


def send(server: Artemis, address: str, messages: Iterable[Text]) -> Left:
    """Put messages into a queue; returns when the broker has all of them, or is away."""
    filler = _Filler(f"127.0.0.1:{server.port}", server.password, address, deque(messages))
    if filler.unsent:
        Container(filler).run()
    return Left([*filler.unanswered.values()], [*filler.unsent])


class AQueue(LinkOption):
    """Asks for a queue where the broker makes addresses by itself."""

    def apply(self, link: Any) -> None:
        end = link.target if link.is_sender else link.source
        end.capabilities.put_object(symbol("queue"))


class _Filler(MessagingHandler):
    def __init__(self, url: str, password: str, address: str, messages: deque[Text]) -> None:
        super().__init__()
        self.url, self.password, self.address = url, password, address
        self.unsent = messages
        self.unanswered: dict[str, Text] = {}

    def on_start(self, event: Any) -> None:
        self.connection = event.container.connect(
            self.url,
            user=USER,
            password=self.password,
            allow_insecure_mechs=True,
            allowed_mechs="PLAIN",
            reconnect=False,
            heartbeat=SILENT_SECONDS,
        )
        event.container.create_sender(self.connection, self.address, options=[AQueue()])

    def on_sendable(self, event: Any) -> None:
        while self.unsent and event.sender.credit:
            message = self.unsent.popleft()
            id_, body = message
            delivery = event.sender.send(Message(id=id_, durable=True, body=body))
            self.unanswered[delivery.tag] = message

    def on_accepted(self, event: Any) -> None:
        del self.unanswered[event.delivery.tag]
        if not self.unanswered and not self.unsent:
            self.connection.close()

    def on_rejected(self, _event: Any) -> None:
        self.connection.close()

    def on_released(self, _event: Any) -> None:
        self.connection.close()

    def on_transport_error(self, _event: Any) -> None:
        """Nothing to do: what is left says it."""


class _Taker(MessagingHandler):
    def __init__(self, url: str, password: str, address: str) -> None:
        super().__init__(prefetch=1_000)
        self.url, self.password, self.address = url, password, address
        self.ids: list[str] = []
        self._seen = -1

    def on_start(self, event: Any) -> None:
        self.connection = event.container.connect(
            self.url,
            user=USER,
            password=self.password,
            allow_insecure_mechs=True,
            allowed_mechs="PLAIN",
            reconnect=False,
        )
        event.container.create_receiver(self.connection, self.address, options=[AQueue()])
        event.container.schedule(QUIET_SECONDS, self)

    def on_message(self, event: Any) -> None:
        self.ids.append(str(event.message.id))

    def on_timer_task(self, event: Any) -> None:
        if len(self.ids) == self._seen:
            self.connection.close()
            return
        self._seen = len(self.ids)
        event.container.schedule(QUIET_SECONDS, self)
