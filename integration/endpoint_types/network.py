"""Connections of HTTP endpoints: to judged addresses, within a deadline, noting what was sent."""

import ssl
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from threading import local
from typing import Any, Final

import httpcore
import httpx

from integration.endpoint_types.addresses import NotATargetError, permitted
from integration.endpoints.codes import EndpointCode

MAX_CONNECTIONS: Final = 64
# Written so much at a time, each piece against the deadline: who reads slowly ends too.
PIECE_BYTES: Final = 64 * 1024
# Shorter than what servers commonly grant, so that few requests meet a connection just closed.
KEEP_ALIVE_SECONDS: Final = 3.0

# The alerts by which a server refuses our certificate, as the TLS library names them.
REFUSALS: Final = frozenset(
    {
        "SSLV3_ALERT_BAD_CERTIFICATE",
        "SSLV3_ALERT_CERTIFICATE_EXPIRED",
        "SSLV3_ALERT_CERTIFICATE_REVOKED",
        "SSLV3_ALERT_CERTIFICATE_UNKNOWN",
        "SSLV3_ALERT_HANDSHAKE_FAILURE",
        "SSLV3_ALERT_NO_CERTIFICATE",
        "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE",
        "TLSV13_ALERT_CERTIFICATE_REQUIRED",
        "TLSV1_ALERT_ACCESS_DENIED",
        "TLSV1_ALERT_DECRYPT_ERROR",
        "TLSV1_ALERT_UNKNOWN_CA",
    }
)


class NotConnectedError(httpcore.ConnectError):
    """Nothing was sent, because there was no connection to send it over."""

    def __init__(self, code: EndpointCode, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code
        self.sentence = sentence


class Call(local):
    """What the current thread's call may still take, and whether it has sent anything."""

    ends_at: float = 0.0
    has_sent: bool = False

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Bound everything this thread sends and receives inside."""
        self.ends_at, self.has_sent = time.monotonic() + seconds, False
        try:
            yield
        finally:
            self.ends_at = 0.0

    def left(self, seconds: float | None) -> float:
        """What remains of `seconds`; a call that is out of time gets next to nothing."""
        remaining = self.ends_at - time.monotonic()
        return max(min(remaining, remaining if seconds is None else seconds), 0.001)

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self.ends_at


class _Stream(httpcore.NetworkStream):
    """A stream whose every piece counts against the deadline: a server that drips ends too."""

    def __init__(self, inner: httpcore.NetworkStream, call: Call) -> None:
        self._inner = inner
        self._call = call
        self._has_read = False

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        if self._call.is_over:
            raise httpcore.ReadTimeout("The time for the whole call is over.")
        try:
            found = self._inner.read(max_bytes, self._call.left(timeout))
        except httpcore.ReadError as problem:
            # With TLS 1.3 a server refuses our certificate only after our side is done. Any
            # other alert may come from one that has the message already.
            if not self._has_read and _reason(problem) in REFUSALS:
                raise _not_connected(problem) from problem
            raise
        self._has_read = True
        return found

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        left = memoryview(buffer)
        while left:
            if self._call.is_over:
                raise httpcore.WriteTimeout("The time for the whole call is over.")
            self._call.has_sent = True
            self._inner.write(bytes(left[:PIECE_BYTES]), self._call.left(timeout))
            left = left[PIECE_BYTES:]

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.NetworkStream:
        try:
            left = self._call.left(timeout)
            inner = self._inner.start_tls(ssl_context, server_hostname, left)
        except httpcore.ConnectError as problem:
            raise _not_connected(problem) from problem
        return _Stream(inner, self._call)

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


class Network(httpcore.NetworkBackend):
    """Opens connections for httpcore, to permitted addresses only."""

    def __init__(self, call: Call, *, private: bool) -> None:
        self._call = call
        self._private = private
        self._inner = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        started = time.monotonic()
        seconds = self._call.left(timeout)
        try:
            # A bracketed or bare IPv6 address resolves to itself.
            found = permitted(host.strip("[]"), port, seconds, private=self._private)
        except NotATargetError as problem:
            raise NotConnectedError(problem.code, problem.sentence) from problem
        ends_at = started + seconds
        last: Exception | None = None
        for address in found:
            left = ends_at - time.monotonic()
            if left <= 0:
                break
            try:
                inner = self._inner.connect_tcp(address, port, left, local_address, socket_options)
                return _Stream(inner, self._call)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as problem:
                last = problem
        if isinstance(last, httpcore.ConnectError):
            sentence = f"{host}:{port} did not accept a connection: {last}."
            raise NotConnectedError(EndpointCode.CONNECTION_FAILED, sentence) from last
        raise httpcore.ConnectTimeout(f"{host}:{port} did not answer in time.")


class Transport(httpx.BaseTransport):
    """httpx over such connections. Raises httpcore's exceptions as they are."""

    def __init__(self, network: Network, tls: ssl.SSLContext) -> None:
        self._pool = httpcore.ConnectionPool(
            ssl_context=tls,
            max_connections=MAX_CONNECTIONS,
            keepalive_expiry=KEEP_ALIVE_SECONDS,
            network_backend=network,
        )

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        url = request.url
        assert isinstance(request.stream, httpx.SyncByteStream)  # noqa: S101 - a sync client's
        answer = self._pool.handle_request(
            httpcore.Request(
                method=request.method,
                url=httpcore.URL(
                    scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path
                ),
                headers=request.headers.raw,
                content=request.stream,
                extensions=request.extensions,
            )
        )
        return httpx.Response(
            status_code=answer.status,
            headers=answer.headers,
            stream=_Answer(answer.stream),
            extensions=answer.extensions,
        )

    def close(self) -> None:
        self._pool.close()


class _Answer(httpx.SyncByteStream):
    """The body of an answer; closed early, its connection is closed with it."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __iter__(self) -> Iterator[bytes]:
        yield from self._inner

    def close(self) -> None:
        self._inner.close()


def _tls(problem: BaseException) -> BaseException | None:
    """What is behind a network error."""
    return problem.__cause__ or problem.__context__


def _reason(problem: BaseException) -> str:
    """The TLS library's own word for it, such as SSLV3_ALERT_BAD_CERTIFICATE."""
    behind = _tls(problem)
    return str(getattr(behind, "reason", "") or "") if isinstance(behind, ssl.SSLError) else ""


def _not_connected(problem: Exception) -> NotConnectedError:
    behind = _tls(problem)
    if isinstance(behind, ssl.SSLCertVerificationError):
        sentence = f"The certificate of the other side is not trusted: {behind.verify_message}."
        return NotConnectedError(EndpointCode.CERTIFICATE_REFUSED, sentence)
    reason = (_reason(problem) or str(problem)).replace("_", " ").lower()
    return NotConnectedError(EndpointCode.TLS_FAILED, f"No TLS connection: {reason}.")
