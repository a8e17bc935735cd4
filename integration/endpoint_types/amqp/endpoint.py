"""Delivery to a queue or topic of a JMS broker, over AMQP 1.0: many messages at a time."""

import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

import httpcore

from integration.amqp.connection import AmqpConnection, Caller, EndedError
from integration.amqp.sending import Ending, SendingLink
from integration.certificates import tls_context
from integration.endpoint_types.amqp.answers import answer_of, not_connected, not_open
from integration.endpoint_types.amqp.messages import Writer
from integration.endpoint_types.amqp.properties import TLS, AmqpProperties
from integration.endpoint_types.network import Call, Network
from integration.endpoints.codes import EndpointCode
from integration.endpoints.port import (
    CLOSED,
    Accepted,
    Answer,
    NotDeliveredError,
    OutboundMessage,
    Unreachable,
)
from integration.endpoints.templates import FieldMissingError

# A broker may end what says nothing for long; who has not sent for so long connects anew.
IDLE_SECONDS: Final = 10.0
# After these endings nobody knows what still comes over the connection.
SPOILED: Final = frozenset({Ending.UNKNOWN, Ending.NOT_SENT})


@dataclass(slots=True, eq=False)
class _Open:
    """A connection with its link, and when it was last used."""

    connection: AmqpConnection
    link: SendingLink
    used_at: float = field(default_factory=time.monotonic)
    is_spoiled: bool = False

    @property
    def is_stale(self) -> bool:
        idle = self.connection.idle_seconds
        longest = min(IDLE_SECONDS, idle / 2) if idle else IDLE_SECONDS
        return time.monotonic() - self.used_at > longest

    @property
    def is_usable(self) -> bool:
        try:
            return not self.is_stale and self.link.is_usable()
        except NotDeliveredError:
            return False


class AmqpEndpoint:
    """One opened endpoint at a broker; see integration.endpoints.port.Deliverer."""

    def __init__(self, properties: AmqpProperties) -> None:
        """Raises ValueError for a certificate or a login that cannot be used."""
        self.at_once = properties.at_once
        seconds = properties.connect_seconds + properties.answer_seconds
        self.within_seconds: float | None = seconds
        self._seconds = seconds
        self._properties = properties
        self._login = _login(properties)
        self._tls = (
            tls_context(
                properties.ca_certificate, properties.client_certificate, properties.client_key
            )
            if properties.security == TLS
            else None
        )
        self._call = Call()
        self._network = Network(self._call, private=properties.private_network)
        self._writer = Writer(properties)
        # Connections that nobody uses at the moment, the last one at the end.
        self._idle: list[_Open] = []
        self._turn = threading.Lock()
        self._closed = threading.Event()

    def deliver(self, messages: Sequence[OutboundMessage]) -> Sequence[Answer]:
        unwritable: dict[int, Answer] = {}
        told = iter(self._sent(self._encoded(messages, unwritable)))
        return [unwritable.get(at) or next(told) for at in range(len(messages))]

    def _encoded(
        self, messages: Sequence[OutboundMessage], unwritable: dict[int, Answer]
    ) -> Iterator[bytes]:
        """Each when its turn comes, so that the broker works on those before it meanwhile."""
        blank = self._writer.blank()
        for at, message in enumerate(messages):
            try:
                encoded = self._writer.encoded(message, blank)
            except (FieldMissingError, NotDeliveredError) as problem:
                unwritable[at] = problem.answer
            else:
                yield encoded

    def connect(self) -> Answer:
        """Connect anew and open the destination for sending; nothing is sent."""
        if self._closed.is_set():
            return CLOSED
        with self._call.within(self._seconds):
            try:
                self._opened().connection.close()
            except NotDeliveredError as problem:
                return problem.answer
        own = self._properties
        text = f"The broker lets us send to the {own.address_kind} {own.address}."
        return Accepted(text=text)

    def close(self) -> None:
        self._closed.set()
        self._end_idle(lambda _: True)

    def _sent(self, messages: Iterator[bytes]) -> Sequence[Answer]:
        with self._call.within(self._seconds):
            try:
                with self._link() as opened:
                    outcomes = opened.link.send(messages, self._properties.answer_seconds)
                    opened.is_spoiled = any(one.ending in SPOILED for one in outcomes)
            except NotDeliveredError as problem:
                return [problem.answer for _ in messages]
        return [answer_of(one) for one in outcomes]

    @contextmanager
    def _link(self) -> Iterator[_Open]:
        """A link for this thread alone; it is kept for the next call. Raises NotDeliveredError."""
        if self._closed.is_set():
            raise NotDeliveredError(CLOSED)
        opened = self._kept() or self._opened()
        try:
            yield opened
        except BaseException:
            opened.connection.close()
            raise
        if opened.is_spoiled:
            opened.connection.close()
            return
        opened.used_at = time.monotonic()
        with self._turn:
            self._idle.append(opened)
        self._end_idle(lambda one: one.is_stale or self._closed.is_set())

    def _kept(self) -> _Open | None:
        while True:
            with self._turn:
                opened = self._idle.pop() if self._idle else None
            if opened is None or opened.is_usable:
                return opened
            opened.connection.close()

    def _end_idle(self, which: Callable[[_Open], bool]) -> None:
        with self._turn:
            ended = [one for one in self._idle if which(one)]
            self._idle = [one for one in self._idle if one not in ended]
        with self._call.within(self._properties.connect_seconds):
            for one in ended:
                one.connection.close()

    def _opened(self) -> _Open:
        """Raises NotDeliveredError."""
        own, ends_at = self._properties, time.monotonic() + self._properties.connect_seconds
        stream = self._stream()
        try:
            connection = AmqpConnection(
                stream,
                Caller(f"sluice-{uuid.uuid4()}", self._login, bool(own.client_certificate)),
                host=own.host,
                seconds=ends_at - time.monotonic(),
            )
        except (EndedError, TimeoutError) as problem:
            stream.close()
            raise NotDeliveredError(not_connected(problem)) from problem
        except BaseException:
            stream.close()
            raise
        try:
            seconds = ends_at - time.monotonic()
            link = SendingLink(connection, own.address, kind=own.address_kind, seconds=seconds)
        except (EndedError, TimeoutError) as problem:
            connection.close()
            raise NotDeliveredError(not_open(problem)) from problem
        return _Open(connection, link)

    def _stream(self) -> httpcore.NetworkStream:
        """Raises NotDeliveredError."""
        own = self._properties
        try:
            stream = self._network.connect_tcp(own.host, own.port, own.connect_seconds)
            if self._tls is None:
                return stream
            try:
                name = own.host.strip("[]")
                return stream.start_tls(self._tls, name, own.connect_seconds)
            except BaseException:
                stream.close()
                raise
        except (httpcore.TimeoutException, httpcore.NetworkError) as problem:
            text = f"{own.host}:{own.port} could not be reached in time: {problem}"
            answer = Unreachable(code=EndpointCode.CONNECT_TIMEOUT, text=f"{text.rstrip('.')}.")
            raise NotDeliveredError(answer) from problem


def _login(properties: AmqpProperties) -> tuple[str, str] | None:
    """User and password as they can be sent. Raises ValueError."""
    if not properties.username:
        return None
    login = properties.username, properties.password
    try:
        is_sendable = b"\0" not in "".join(login).encode()
    except UnicodeEncodeError:
        is_sendable = False
    if not is_sendable:
        raise ValueError("User or password hold a character that cannot be sent.")
    return login
