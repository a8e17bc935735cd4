"""A broker of AMQP 1.0 that does with each message what its subject says."""

import contextlib
import socket
import threading
import time
from typing import Any, Final, Self

from proton import Collector, Condition, Connection, Delivery, Event, Message, Transport

LOOK_SECONDS: Final = 0.05
CHUNK: Final = 65_536
STATES: Final = {
    "accepted": Delivery.ACCEPTED,
    "rejected": Delivery.REJECTED,
    "full": Delivery.REJECTED,
    "faulty": Delivery.REJECTED,
    "latin": Delivery.REJECTED,
    "released": Delivery.RELEASED,
    "modified": Delivery.MODIFIED,
}
CONDITIONS: Final = {
    "rejected": Condition("amqp:invalid-field", "site is no site"),
    "full": Condition("amqp:resource-limit-exceeded", "no room"),
    "faulty": Condition("amqp:internal-error", "the disk failed"),
    "latin": Condition("amqp:invalid-field", "LATIN-1"),
}


class SettlingBroker:
    """Use as a context manager; `port` is where it listens, `ids` what it accepted.

    Besides `STATES` a subject may be "settled" (without a state), "late" (accepted in a moment),
    "silent", "detached", "ended" (the session) or "dropped". Of the address "none" it says that
    there is no such queue. `idle_seconds`: so long it hears nothing, then it gives up; what is late
    comes after `late_seconds`. Messages have at most `most_bytes`; 0 for any. Once `frozen` is set
    it does not do anything any more.
    """

    def __init__(
        self,
        credit: int = 1_000,
        idle_seconds: float = 0,
        most_bytes: int = 0,
        late_seconds: float = 0.5,
    ) -> None:
        self.frozen = threading.Event()
        self._idle_seconds = idle_seconds
        self._late_seconds = late_seconds
        self._most_bytes = most_bytes
        self._late: list[tuple[float, Any]] = []
        self.ids: list[str] = []
        self._credit = credit
        self._over = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(LOOK_SECONDS)
        self.port = int(self._listener.getsockname()[1])
        self._threads = [threading.Thread(target=self._accept)]

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(10)
        self._listener.close()

    def _accept(self) -> None:
        while not self._over.is_set():
            with contextlib.suppress(TimeoutError):
                client, _ = self._listener.accept()
                thread = threading.Thread(target=self._serve, args=(client,))
                self._threads.append(thread)
                thread.start()

    def _serve(self, client: socket.socket) -> None:
        transport, engine, collector = Transport(Transport.SERVER), Connection(), Collector()
        transport.sasl().allowed_mechs("ANONYMOUS")
        transport.idle_timeout = self._idle_seconds
        engine.collect(collector)
        transport.bind(engine)
        client.settimeout(LOOK_SECONDS)
        with client, contextlib.suppress(OSError):
            goes_on = True
            while goes_on and not self._over.is_set():
                if self.frozen.wait(0):
                    self._over.wait(LOOK_SECONDS)
                    continue
                while goes_on and (event := collector.peek()) is not None:
                    goes_on = self._handled(event)
                    collector.pop()
                self._settle_late(engine)
                transport.tick(time.monotonic())
                while (pending := transport.pending()) > 0:
                    # As a broker whose words are no UTF-8.
                    client.sendall(transport.peek(pending).replace(b"LATIN-1", b"L\xe4tin-1"))
                    transport.pop(pending)
                with contextlib.suppress(TimeoutError):
                    data = client.recv(CHUNK) if goes_on else b""
                    if not data:
                        return
                    transport.push(data)

    def _handled(self, event: Any) -> bool:
        """Answer one thing that the client did; False ends the connection without a word."""
        match event.type:
            case Event.CONNECTION_REMOTE_OPEN:
                event.connection.open()
            case Event.CONNECTION_REMOTE_CLOSE:
                event.connection.close()
            case Event.SESSION_REMOTE_OPEN:
                event.session.open()
            case Event.LINK_REMOTE_OPEN:
                self._open(event.link)
            case Event.DELIVERY if event.delivery.readable and not event.delivery.partial:
                return self._settled(event.link, event.delivery)
        return True

    def _open(self, link: Any) -> None:
        link.target.address = link.remote_target.address
        link.max_message_size = self._most_bytes
        link.open()
        if link.remote_target.address == "none":
            _close(link, "amqp:not-found", "there is no such queue")
        elif self._credit:
            link.flow(self._credit)

    def _settle_late(self, engine: Connection) -> None:
        now = time.monotonic()
        due = [one for at, one in self._late if at <= now and one.connection == engine]
        self._late = [one for one in self._late if one[1] not in due]
        for delivery in due:
            delivery.update(Delivery.ACCEPTED)
            delivery.settle()

    def _settled(self, link: Any, delivery: Any) -> bool:
        message = Message()
        message.decode(link.recv(delivery.pending))
        link.advance()
        wanted = message.subject
        if wanted in STATES:
            if wanted in CONDITIONS:
                delivery.local.condition = CONDITIONS[wanted]
            delivery.update(STATES[wanted])
        if wanted in {"accepted", "late"}:
            self.ids.append(message.id)
        if wanted == "late":
            self._late.append((time.monotonic() + self._late_seconds, delivery))
        if wanted == "ended":
            _close(link.session, "amqp:resource-deleted", "the session is over")
        if wanted in STATES or wanted == "settled":
            delivery.settle()
        if wanted == "detached":
            _close(link, "amqp:link:detach-forced", "closed for maintenance")
        return bool(wanted != "dropped")


def _close(end: Any, condition: str, text: str) -> None:
    end.condition = Condition(condition, text)
    end.close()
