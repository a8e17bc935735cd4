"""A JMS broker beside a benchmark: started, and asked how many messages it has."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from proton import symbol
from proton.handlers import MessagingHandler
from proton.reactor import Container, LinkOption

from devstack import ports
from devstack.artemis import USER, Artemis

# Nothing more comes for so long.
QUIET_SECONDS: Final = 0.5


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


class AQueue(LinkOption):
    """Asks for a queue where the broker makes addresses by itself."""

    def apply(self, link: Any) -> None:
        end = link.target if link.is_sender else link.source
        end.capabilities.put_object(symbol("queue"))


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
