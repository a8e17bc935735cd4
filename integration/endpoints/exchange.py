"""One request and its answer over HTTP/1.1, on connections that are kept between messages.

A general client costs several times what the message itself does; endpoints need one request in
one piece and a bounded answer. Connections, deadlines and errors are those of `network`.
"""

import ssl
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import httpcore
import httpx

from integration.endpoints.network import KEEP_ALIVE_SECONDS, Network
from integration.endpoints.wire import Head, head_of, line_end, size_of

PIECE_BYTES: Final = 64 * 1024
# As much as common clients take; whoever sends more means no good.
MAX_HEAD_BYTES: Final = 100 * 1024
MAX_LINE_BYTES: Final = 4 * 1024
CONTINUE: Final = range(100, 200)
WITHOUT_BODY: Final = frozenset({204, 304})
CRLF: Final = b"\r\n"
STANDING: Final = {
    "User-Agent": "Sluice",
    "Accept": "*/*",
    "Accept-Encoding": "identity",
    "Connection": "keep-alive",
}
Origin = tuple[str, str, int | None]


@dataclass(slots=True, eq=False)
class _Connection:
    """An open connection, and what came in over it and is not read yet."""

    stream: httpcore.NetworkStream
    seconds: float
    buffer: bytearray = field(default_factory=bytearray)
    idle_since: float = 0.0
    is_broken: bool = False

    @property
    def is_fresh(self) -> bool:
        """Whether it may be used again: not for long idle, and nothing came that nobody asked."""
        if self.buffer or time.monotonic() - self.idle_since > KEEP_ALIVE_SECONDS:
            return False
        # Readable without a question is closed, or about to be misread.
        return not self.stream.get_extra_info("is_readable")

    def more(self) -> bool:
        """Wait for more; False when the other side has ended the connection."""
        piece = self.stream.read(PIECE_BYTES, self.seconds)
        self.buffer += piece
        return bool(piece)

    def take(self, count: int) -> bytes:
        """Up to `count` bytes, at least one. Raises RemoteProtocolError at the end."""
        if not self.buffer and not self.more():
            raise httpcore.RemoteProtocolError("The answer broke off.")
        taken = bytes(self.buffer[:count])
        del self.buffer[:count]
        return taken

    def line(self) -> bytes:
        """One line of a chunked body."""
        while (end := self.buffer.find(CRLF)) < 0:
            if len(self.buffer) > MAX_LINE_BYTES or not self.more():
                raise httpcore.RemoteProtocolError("The answer broke off in its chunks.")
        return self.take(end + 2)[:-2]

    def head(self) -> Head:
        """The head of the answer; those that only ask for patience are passed over."""
        while True:
            while (end := line_end(self.buffer)) is None:
                if len(self.buffer) > MAX_HEAD_BYTES:
                    raise httpcore.RemoteProtocolError("The head of the answer does not end.")
                if not self.more():
                    raise httpcore.RemoteProtocolError("It ended the connection unanswered.")
            head = head_of(bytes(self.buffer[: end[0]]))
            del self.buffer[: end[1]]
            if head.status not in CONTINUE:
                return head


class Reply:
    """An answer that has begun to come in. Has to be closed."""

    def __init__(self, owner: "Exchanges", origin: Origin, connection: _Connection) -> None:
        self._owner = owner
        self._origin = origin
        self._connection = connection
        self._is_read = False
        self.head = connection.head()

    def pieces(self) -> Iterator[bytes]:
        """The body as it comes in. Raises httpcore's exceptions where it breaks off."""
        head = self.head
        if head.status in WITHOUT_BODY:
            pass
        elif head.is_chunked:
            yield from self._chunks()
        elif head.length is not None:
            yield from self._counted(head.length)
        else:
            while self._connection.buffer or self._connection.more():
                yield self._connection.take(PIECE_BYTES)
        self._is_read = True

    def close(self) -> None:
        """Give the connection back; one whose answer was not read to its end is closed."""
        self._owner.give_back(
            self._origin, self._connection, again=self._is_read and self.head.is_kept
        )

    def _counted(self, left: int) -> Iterator[bytes]:
        while left:
            piece = self._connection.take(min(left, PIECE_BYTES))
            left -= len(piece)
            yield piece

    def _chunks(self) -> Iterator[bytes]:
        while size := size_of(self._connection.line()):
            yield from self._counted(size)
            if self._connection.line():
                raise httpcore.RemoteProtocolError("A chunk of the answer is longer than it says.")
        trailing = 0
        while line := self._connection.line():
            trailing += len(line)
            if trailing > MAX_HEAD_BYTES:
                raise httpcore.RemoteProtocolError("The answer's trailer does not end.")


class Exchanges:
    """Connections of one endpoint, each for one exchange at a time; safe for several threads."""

    def __init__(
        self, network: Network, tls: ssl.SSLContext, *, connect_seconds: float, read_seconds: float
    ) -> None:
        self._network = network
        self._tls = tls
        tls.set_alpn_protocols(["http/1.1"])
        self._connect_seconds = connect_seconds
        self._read_seconds = read_seconds
        self._idle: dict[Origin, list[_Connection]] = {}
        self._open: set[_Connection] = set()
        self._is_closed = False

    def ask(self, url: httpx.URL, request: bytes) -> Reply:
        """Send a whole request and wait for the head of its answer.

        Raises NotConnectedError and httpcore's TimeoutException, NetworkError, ProtocolError.
        """
        origin = (url.scheme, url.raw_host.decode("ascii"), url.port)
        connection = self._connection(origin)
        is_answered = False
        try:
            try:
                connection.stream.write(request, self._read_seconds)
            except httpcore.WriteError:
                # A server may answer before it has read everything, and close.
                connection.is_broken = True
            reply = Reply(self, origin, connection)
            is_answered = True
            return reply
        finally:
            if not is_answered:
                self.give_back(origin, connection, again=False)

    def give_back(self, origin: Origin, connection: _Connection, *, again: bool) -> None:
        if again and not connection.is_broken and not self._is_closed:
            connection.idle_since = time.monotonic()
            self._idle.setdefault(origin, []).append(connection)
        else:
            self._open.discard(connection)
            connection.stream.close()

    def close(self) -> None:
        """Close every connection, also those in use; may be called twice."""
        self._is_closed = True
        self._idle.clear()
        while self._open:
            self._open.pop().stream.close()

    def _connection(self, origin: Origin) -> _Connection:
        idle = self._idle.get(origin)
        while idle:
            try:
                found = idle.pop()
            except IndexError:
                break  # another thread took the last one
            if found.is_fresh:
                return found
            self.give_back(origin, found, again=False)
        scheme, host, port = origin
        stream = self._network.connect_tcp(
            host, port or (443 if scheme == "https" else 80), self._connect_seconds
        )
        if scheme == "https":
            try:
                stream = stream.start_tls(self._tls, host, self._connect_seconds)
            except BaseException:
                stream.close()
                raise
        made = _Connection(stream, self._read_seconds)
        self._open.add(made)
        return made


class Cookies:
    """What the partner wants to see again, as a balancer or a session of its own does."""

    def __init__(self) -> None:
        self._jar = httpx.Cookies()

    def headers(self, method: str, url: httpx.URL) -> Mapping[str, str]:
        if not self._jar.jar:
            return {}
        request = httpx.Request(method, url)
        self._jar.set_cookie_header(request)
        return {"Cookie": request.headers["cookie"]} if "cookie" in request.headers else {}

    def keep(self, method: str, url: httpx.URL, head: Head) -> None:
        if "set-cookie" in head.headers:
            asked = httpx.Request(method, url)
            told = httpx.Response(head.status, headers=list(head.fields), request=asked)
            self._jar.extract_cookies(told)


def request_of(
    method: str, url: httpx.URL, headers: Mapping[str, str], body: bytes | None
) -> bytes:
    """Head and body in one piece. Raises LocalProtocolError for a header that cannot be sent."""
    lines = [f"{method} {url.raw_path.decode('ascii')} HTTP/1.1", f"Host: {url.netloc.decode()}"]
    for name, value in headers.items():
        if not (value.isascii() and value.isprintable()):
            raise httpcore.LocalProtocolError(f"The header {name} holds what no header can")
        lines.append(f"{name}: {value}")
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode("ascii") + (body or b"")
