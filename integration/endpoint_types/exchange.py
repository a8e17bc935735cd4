"""One request and its answer by the standard library's HTTP, on connections kept between messages.

Its client reads heads and chunks in a tenth of the time that a general one takes; connections,
deadlines and errors are those of `network`.
"""

import io
import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPResponse
from http.cookiejar import Cookie, CookieJar
from typing import Final

import httpcore
import httpx

from integration.endpoint_types.network import KEEP_ALIVE_SECONDS, Network

PIECE_BYTES: Final = 64 * 1024
# As many as browsers keep for one host at least; each is read for every message.
MAX_COOKIES: Final = 50
PORTS: Final = {"http": 80, "https": 443}
CONTINUE: Final = range(100, 200)
STANDING: Final = {
    "User-Agent": "Sluice",
    "Accept": "*/*",
    "Accept-Encoding": "identity",
    "Connection": "keep-alive",
}
Origin = tuple[str, str, int | None]


@dataclass(slots=True, eq=False)
class _Connection:
    """An open connection as the socket that http.client writes to and reads from."""

    stream: httpcore.NetworkStream
    seconds: float
    # Bytes that came in behind the answer that was read.
    kept: bytes = b""
    idle_since: float = 0.0
    is_broken: bool = False
    _unsent: bytearray = field(default_factory=bytearray)

    @property
    def is_fresh(self) -> bool:
        """Return whether it may be used again: not long idle, and no byte came unasked."""
        if self.kept or time.monotonic() - self.idle_since > KEEP_ALIVE_SECONDS:
            return False
        # Readable without a question is closed, or about to be misread.
        return not self.stream.get_extra_info("is_readable")

    def sendall(self, data: bytes) -> None:
        self._unsent += data

    def flush(self) -> None:
        """Send what was written, in one piece."""
        request, self._unsent = bytes(self._unsent), bytearray()
        try:
            self.stream.write(request, self.seconds)
        except httpcore.WriteError:
            # A server may answer before it has read everything, and close.
            self.is_broken = True

    def makefile(self, _mode: str) -> io.BufferedReader:
        return _Reader(_Pipe(self), PIECE_BYTES)


class _Pipe(io.RawIOBase):
    """The input over a connection."""

    def __init__(self, connection: _Connection) -> None:
        self.connection = connection
        self.is_shut = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override] # what it is given
        if self.is_shut:
            return 0
        connection = self.connection
        piece, connection.kept = connection.kept[: len(buffer)], connection.kept[len(buffer) :]
        piece = piece or connection.stream.read(len(buffer), connection.seconds)
        buffer[: len(piece)] = piece
        return len(piece)


class _Reader(io.BufferedReader):
    """Leaves with its connection what it has read beyond one answer."""

    raw: _Pipe

    def close(self) -> None:
        if not self.closed:
            self.raw.is_shut = True
            self.raw.connection.kept = self.peek() + self.raw.connection.kept
        super().close()


class Reply:
    """An answer that has begun to come in. Has to be closed."""

    def __init__(self, owner: "Exchanges", origin: Origin, connection: _Connection) -> None:
        self._owner = owner
        self._origin = origin
        self._connection = connection
        self._is_read = False
        with _as_protocol():
            self._answer = _begun(connection)
        self.status: int = self._answer.status
        self.fields = self._answer.headers.items()
        # By names in lower case; of a field that comes twice, the first.
        self.headers = {name.lower(): value for name, value in reversed(self.fields)}

    def pieces(self) -> Iterator[bytes]:
        """The body as it comes in. Raises httpcore's exceptions where it breaks off."""
        answer = self._answer
        with _as_protocol():
            while piece := answer.read1(PIECE_BYTES):
                yield piece
        if answer.length:
            raise httpcore.RemoteProtocolError("The answer broke off.")
        self._is_read = True

    def close(self) -> None:
        """Give the connection back; one whose answer was not read to its end is closed."""
        self._answer.close()
        again = self._is_read and not self._answer.will_close and self._has_one_length
        self._owner.give_back(self._origin, self._connection, again=again)

    @property
    def _has_one_length(self) -> bool:
        """Two lengths are two opinions of where the next answer begins."""
        lengths = self._answer.headers.get_all("content-length", [])
        return len(lengths) + bool(self._answer.chunked) <= 1


def _begun(connection: _Connection) -> HTTPResponse:
    """The head of the answer; those that only ask for patience are passed over."""
    while True:
        answer = HTTPResponse(connection)  # type: ignore[arg-type] # all it needs of a socket
        answer.begin()
        if answer.status not in CONTINUE:
            break
        answer.close()
    if not answer.chunked and "transfer-encoding" in answer.headers:
        raise httpcore.RemoteProtocolError("The answer is coded in a way that nobody asked for")
    return answer


@contextmanager
def _as_protocol() -> Iterator[None]:
    try:
        yield
    except HTTPException as problem:
        text = f"What came in is no answer of HTTP/1.1: {type(problem).__name__}"
        raise httpcore.RemoteProtocolError(text) from problem


@contextmanager
def _as_unsent() -> Iterator[None]:
    """Names the problem alone, as its text may quote what is a secret."""
    try:
        yield
    except (HTTPException, ValueError) as problem:
        text = f"The request cannot be made: {type(problem).__name__}"
        raise httpcore.LocalProtocolError(text) from problem


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

    def ask(
        self, method: str, url: httpx.URL, headers: Mapping[str, str], body: bytes | None
    ) -> Reply:
        """Send a whole request and wait for the head of its answer.

        Raises NotDeliveredError and httpcore's TimeoutException, NetworkError, ProtocolError:
        LocalProtocolError for a header that cannot be sent.
        """
        _check(headers)
        origin = (url.scheme, url.raw_host.decode("ascii"), url.port)
        connection = self._connection(origin)
        is_answered = False
        try:
            host = url.netloc.decode("ascii")
            path = url.raw_path.decode("ascii")
            proxy = self._network.proxy_for(origin[1]) if origin[0] == "http" else None
            if proxy is not None:
                # It is told where to, and who we are, with each request.
                path, headers = f"http://{host}{path}", {**headers, **proxy.headers}
            with _as_unsent():
                # With a port it does not look for one in the host, which may be one of IPv6.
                sender = HTTPConnection(origin[1], origin[2] or PORTS[origin[0]])
                sender.sock = connection  # all it needs of a socket
                sender.request(method, path, body, {"Host": host, **headers})
            connection.flush()
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
                connection = idle.pop()
            except IndexError:
                break  # another thread took the last one
            if connection.is_fresh:
                return connection
            self.give_back(origin, connection, again=False)
        scheme, host, port = origin
        port = port or PORTS[scheme]
        stream = self._network.connect(scheme, host, port, self._connect_seconds)
        if scheme == "https":
            try:
                stream = stream.start_tls(self._tls, host, self._connect_seconds)
            except BaseException:
                stream.close()
                raise
        made = _Connection(stream, self._read_seconds)
        self._open.add(made)
        return made


class _Jar(CookieJar):
    """Has at most `MAX_COOKIES`, those that were set last; what no request can carry stays out."""

    def __init__(self) -> None:
        super().__init__()
        # Domain, path and name, the first that goes first.
        self._order: dict[tuple[str, str, str], None] = {}

    def set_cookie(self, cookie: Cookie) -> None:
        if not _can_be_sent(cookie.name + (cookie.value or "")):
            return
        super().set_cookie(cookie)
        place = (cookie.domain, cookie.path, cookie.name)
        self._order.pop(place, None)
        self._order[place] = None
        if len(self._order) > MAX_COOKIES:
            self.clear(*next(iter(self._order)))

    def clear(
        self, domain: str | None = None, path: str | None = None, name: str | None = None
    ) -> None:
        """Forget one cookie, as the library asks for when it has ended."""
        self._order.pop((domain or "", path or "", name or ""), None)
        super().clear(domain, path, name)


class Cookies:
    """Cookies that the partner wants to see again, as a balancer or a session of its own does."""

    def __init__(self) -> None:
        self._jar = httpx.Cookies(_Jar())

    def headers(self, method: str, url: httpx.URL) -> Mapping[str, str]:
        if not self._jar.jar:
            return {}
        request = httpx.Request(method, url)
        self._jar.set_cookie_header(request)
        return {"Cookie": request.headers["cookie"]} if "cookie" in request.headers else {}

    def keep(self, method: str, url: httpx.URL, reply: Reply) -> None:
        if "set-cookie" in reply.headers:
            request = httpx.Request(method, url)
            # As they came: the client takes texts beyond ASCII for no headers, and raises.
            answer = httpx.Response(
                reply.status,
                headers=[
                    (name.encode("latin-1"), value.encode("latin-1"))
                    for name, value in reply.fields
                    if name.lower() == "set-cookie"
                ],
                request=request,
            )
            self._jar.extract_cookies(answer)


def _check(headers: Mapping[str, str]) -> None:
    """Raises LocalProtocolError, which names the header alone: its value may be a secret."""
    for name, value in headers.items():
        if not _can_be_sent(value):
            raise httpcore.LocalProtocolError(f"The header {name} holds what no header can")


def _can_be_sent(value: str) -> bool:
    return value.isascii() and value.isprintable()
