"""One connection to a broker that speaks AMQP 1.0: Qpid Proton's engine over a stream of ours.

The engine reads and writes nothing by itself, so that addresses, TLS and deadlines are those of
every other endpoint. One thread at a time may use a connection.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, NamedTuple, Protocol

import httpcore
from proton import Connection as Engine
from proton import Endpoint, Link, Transport, TransportException, symbol

PIECE_BYTES: Final = 64 * 1_024
# Larger frames than this would only be copied more often.
FRAME_BYTES: Final = 64 * 1_024
# What comes and is not read yet lies in memory.
INCOMING_BYTES: Final = 16 * 2**20
# AMQP Extension Registry: "Enforcing Connection Uniqueness".
SOLE: Final = symbol("sole-connection-for-container")
# The broker is told to expect something from us within twice this; it is sent while we wait.
HEARTBEAT_SECONDS: Final = 30.0
LITTLE_SECONDS: Final = 0.001
# A broker may send faster than it is read; what is left is taken in the next time.
HEAR_SECONDS: Final = 1.0
# For the last words of a broker that has closed the connection: they are on their way already.
LAST_SECONDS: Final = 0.2


class Stream(Protocol):
    """An open connection, with or without TLS. Raises httpcore's TimeoutException, NetworkError."""

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes: ...

    def write(self, buffer: bytes, timeout: float | None = None) -> None: ...

    def get_extra_info(self, info: str) -> Any: ...

    def close(self) -> None: ...


class EndedError(Exception):
    """The broker or the network has ended the connection, or its session or link.

    `condition` is AMQP's word for why, such as amqp:unauthorized-access; empty when none was said.
    """

    def __init__(self, condition: str, text: str) -> None:
        super().__init__(text or condition or "no reason was given")
        self.condition = condition


class Caller(NamedTuple):
    """Who we are: what the broker knows us by, and how we prove it.

    With `is_sole` the broker is to refuse us while another connection has that name.
    """

    name: str
    login: tuple[str, str] | None = None
    has_certificate: bool = False
    is_sole: bool = False


class AmqpConnection:
    """An opened connection with one session on it, and the links that `open` makes.

    The engine tells of nothing by events: to wrap them for Python costs more than to look at the
    few states that matter here. `until` lets the broker answer.
    """

    def __init__(self, stream: Stream, caller: Caller, *, host: str, seconds: float) -> None:
        """Open it. Raises TimeoutError, EndedError."""
        self._stream = stream
        self._transport = Transport()
        self._transport.max_frame_size = FRAME_BYTES
        self._transport.idle_timeout = HEARTBEAT_SECONDS
        self._links: list[Link] = []
        self.engine = Engine()
        self.engine.container, self.engine.hostname = caller.name, host
        if caller.is_sole:
            self.engine.desired_capabilities = [SOLE]
        self.session = self.engine.session()
        self.session.incoming_capacity = INCOMING_BYTES
        self._identify(caller.login, has_certificate=caller.has_certificate)
        self._transport.bind(self.engine)
        self.engine.open()
        self.until(lambda: bool(self.engine.state & Endpoint.REMOTE_ACTIVE), seconds)
        self.session.open()

    def open(self, link: Link, seconds: float) -> None:
        """Open a link of the session, and watch it. Raises TimeoutError, EndedError."""
        self._links.append(link)
        link.open()
        self.until(lambda: bool(link.state & Endpoint.REMOTE_ACTIVE), seconds)

    def close_link(self, link: Link) -> None:
        """End a link alone; the connection goes on, also where the broker has ended the link."""
        self._links.remove(link)
        link.close()
        link.free()

    def has_ended_alone(self, link: Link) -> bool:
        """Return whether the broker has ended this link, and the connection goes on."""
        is_over = self.engine.state & Endpoint.REMOTE_CLOSED
        return bool(link.state & Endpoint.REMOTE_CLOSED) and not is_over

    def _identify(self, login: tuple[str, str] | None, *, has_certificate: bool) -> None:
        sasl = self._transport.sasl()
        if login is None:
            sasl.allowed_mechs("EXTERNAL ANONYMOUS" if has_certificate else "ANONYMOUS")
            return
        self.engine.user, self.engine.password = login
        # The engine knows of no TLS but its own.
        sasl.allow_insecure_mechs = True
        sasl.allowed_mechs("PLAIN")

    @property
    def idle_seconds(self) -> float:
        """So long the broker waits for something of ours; 0 where it does not mind."""
        return float(self._transport.remote_idle_timeout)

    def until(self, holds: Callable[[], bool], seconds: float) -> None:
        """Exchange with the broker until it holds. Raises TimeoutError, EndedError."""
        ends_at = time.monotonic() + seconds
        while True:
            # What comes back is when the broker is to hear from us again.
            beats_at = self._transport.tick(time.monotonic())
            self._write(ends_at)
            if holds():
                return
            self._check()
            now = time.monotonic()
            if now >= ends_at:
                raise TimeoutError("The broker did not answer in time.")
            waits_until = min(ends_at, beats_at) if beats_at else ends_at
            self._read(max(waits_until - now, LITTLE_SECONDS))

    def write(self, seconds: float) -> None:
        """Send what there is to be sent. Raises TimeoutError, EndedError."""
        self._transport.tick(time.monotonic())
        self._write(time.monotonic() + seconds)

    def hear(self) -> None:
        """Take in what the broker has said meanwhile, without waiting. Raises EndedError."""
        ends_at = time.monotonic() + HEAR_SECONDS
        while self._stream.get_extra_info("is_readable") and time.monotonic() < ends_at:
            self._read(LITTLE_SECONDS)
            self._check()

    def close(self) -> None:
        """End it, with a good-bye if that can be written at once; nobody waits for an answer."""
        try:
            self.engine.close()
            self._write(time.monotonic() + LITTLE_SECONDS)
        except (EndedError, TimeoutError):
            pass
        finally:
            self._stream.close()
            self.engine.free()

    def _write(self, ends_at: float) -> None:
        while (pending := self._transport.pending()) > 0:
            data = self._transport.peek(pending)
            if not data:
                return
            try:
                self._stream.write(data, max(ends_at - time.monotonic(), LITTLE_SECONDS))
            except httpcore.TimeoutException as problem:
                raise TimeoutError("The broker does not read what is sent to it.") from problem
            except httpcore.NetworkError as problem:
                self._hear_last()
                raise EndedError("", f"the connection broke: {problem}") from problem
            self._transport.pop(len(data))

    def _hear_last(self) -> None:
        """Whoever closes a connection may have said why. Raises EndedError with that."""
        with suppress(TimeoutError, EndedError):
            self._read(LAST_SECONDS)
        self._check()

    def _read(self, seconds: float) -> None:
        """Take in what comes within this time, if anything does. Raises EndedError."""
        room = self._transport.capacity()
        if room <= 0:
            self._end("")
        try:
            data = self._stream.read(min(room, PIECE_BYTES), seconds)
        except httpcore.TimeoutException:
            return
        except httpcore.NetworkError as problem:
            raise EndedError("", f"the connection broke: {problem}") from problem
        if not data:
            self._end("the broker closed the connection")
        try:
            self._transport.push(data)
        except TransportException as problem:
            raise EndedError("", f"what it sent is no AMQP 1.0: {problem}") from problem

    def _check(self) -> None:
        """Raises EndedError once the broker or the engine has given up any of it."""
        if self._transport.condition is not None or self.engine.state & Endpoint.REMOTE_CLOSED:
            self._end("")
        for end in (*self._links, self.session):
            if end.state & Endpoint.REMOTE_CLOSED:
                raise EndedError(*words_of(end, "remote_condition"))

    def _end(self, text: str) -> None:
        """Raise EndedError with what is known."""
        name, said = words_of(self.engine, "remote_condition")
        if not (name or said):
            name, said = words_of(self._transport, "condition")
        raise EndedError(name, said or text or "the broker closed the connection")


def has_address(terminus: Any) -> bool:
    """Return whether a source or target has an address, be it readable or not."""
    try:
        return terminus.address is not None
    except UnicodeDecodeError:
        # The engine takes all that brokers say for UTF-8.
        return True


def words_of(end: Any, condition: str) -> tuple[str, str]:
    """The name and the description of a condition; both empty where none was given."""
    try:
        found = getattr(end, condition)
    except UnicodeDecodeError:
        # The engine takes all that brokers say for UTF-8.
        return "", "its words are no UTF-8"
    return ("", "") if found is None else (found.name or "", found.description or "")
