"""Connections of HTTP endpoints: to judged addresses, within a deadline, noting what was sent."""

import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import local
from typing import Any, Final

import httpcore

from integration.endpoint_types.addresses import PERMIT_IN_ENDPOINT, is_unknown_name, permitted
from integration.endpoint_types.proxying import HEAD_ENDS, MAX_HEAD_BYTES, Proxy
from integration.endpoints.codes import EndpointCode
from integration.endpoints.port import NotDeliveredError, Unreachable

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


class Call(local):
    """The time that the current thread's call has left, and whether it has sent anything."""

    ends_at: float = 0.0
    has_sent: bool = False

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Bound all that this thread sends and receives inside, within what bounds it already."""
        before, ends_at = self.ends_at, time.monotonic() + seconds
        self.ends_at, self.has_sent = min(before or ends_at, ends_at), False
        try:
            yield
        finally:
            self.ends_at = before

    def left(self, seconds: float | None) -> float:
        """Return what remains of `seconds`; a call that is out of time gets next to nothing."""
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
            piece = self._inner.read(max_bytes, self._call.left(timeout))
        except httpcore.ReadError as problem:
            # With TLS 1.3 a server refuses our certificate only after our side is done. Any
            # other alert may come from one that has the message already.
            if not self._has_read and _reason(problem) in REFUSALS:
                raise _not_connected(problem) from problem
            raise
        self._has_read = True
        return piece

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


class Network:
    """Opens connections, to permitted addresses only; `permit` says where a person permits more."""

    def __init__(
        self,
        call: Call,
        *,
        private: bool,
        proxy: Proxy | None = None,
        permit: str = PERMIT_IN_ENDPOINT,
    ) -> None:
        self._call = call
        self._private = private
        self._permit = permit
        self._proxy = proxy
        self._inner = httpcore.SyncBackend()

    def proxy_for(self, host: str) -> Proxy | None:
        """The proxy by which this host is reached, if it is by one."""
        return self._proxy if self._proxy is not None and self._proxy.serves(host) else None

    def connect(self, scheme: str, host: str, port: int, seconds: float) -> httpcore.NetworkStream:
        """A stream to the host: a tunnel where a proxy serves it, and for http:// the proxy itself.

        Raises as `connect_tcp` does.
        """
        proxy = self.proxy_for(host)
        if proxy is None:
            return self.connect_tcp(host, port, seconds)
        self._judge(host, port, seconds)
        private = self._private or proxy.is_ours
        stream = self._connected(proxy.host, proxy.port, seconds, private=private)
        if scheme == "https":
            has_sent = self._call.has_sent
            try:
                self._tunnel(stream, proxy, _target(host, port), seconds)
            except BaseException:
                stream.close()
                raise
            finally:
                # What the proxy was told is no part of a message.
                self._call.has_sent = has_sent
        return stream

    def _judge(self, host: str, port: int, seconds: float) -> None:
        """Refuse what is refused without a proxy; a name that only the proxy knows is its own.

        A resolver that is slow or away has not said that there is no such name.
        """
        left = self._call.left(seconds)
        try:
            permitted(host.strip("[]"), port, left, private=self._private, permit=self._permit)
        except NotDeliveredError as refused:
            if not is_unknown_name(refused):
                raise

    @staticmethod
    def _tunnel(stream: httpcore.NetworkStream, proxy: Proxy, target: str, seconds: float) -> None:
        stream.write(proxy.asked_to_connect(target), seconds)
        head = b""
        while HEAD_ENDS not in head and len(head) < MAX_HEAD_BYTES:
            piece = stream.read(MAX_HEAD_BYTES, seconds)
            if not piece:
                break
            head += piece
        proxy.check_answer(head, target)

    def connect_tcp(self, host: str, port: int, seconds: float) -> httpcore.NetworkStream:
        """Raises NotDeliveredError and httpcore's ConnectTimeout: nothing was sent then."""
        return self._connected(host, port, seconds, private=self._private)

    def _connected(
        self, host: str, port: int, seconds: float, *, private: bool
    ) -> httpcore.NetworkStream:
        left = self._call.left(seconds)
        ends_at = time.monotonic() + left
        # A bracketed or bare IPv6 address resolves to itself.
        name = host.strip("[]")
        last: Exception | None = None
        for address in permitted(name, port, left, private=private, permit=self._permit):
            left = ends_at - time.monotonic()
            if left <= 0:
                break
            try:
                return _Stream(self._inner.connect_tcp(address, port, left), self._call)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as problem:
                last = problem
        if isinstance(last, httpcore.ConnectError):
            text = f"{host}:{port} did not accept a connection: {last}."
            answer = Unreachable(code=EndpointCode.CONNECTION_FAILED, text=text)
            raise NotDeliveredError(answer) from last
        raise httpcore.ConnectTimeout(f"{host}:{port} did not answer in time.")


def _target(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _tls(problem: BaseException) -> BaseException | None:
    """Return what is behind a network error."""
    return problem.__cause__ or problem.__context__


def _reason(problem: BaseException) -> str:
    """The TLS library's own word for it, such as SSLV3_ALERT_BAD_CERTIFICATE."""
    behind = _tls(problem)
    return str(getattr(behind, "reason", "") or "") if isinstance(behind, ssl.SSLError) else ""


def _not_connected(problem: Exception) -> NotDeliveredError:
    """Nothing was sent, because there was no connection to send it over."""
    behind = _tls(problem)
    if isinstance(behind, ssl.SSLCertVerificationError):
        text = f"The certificate of the other side is not trusted: {behind.verify_message}."
        return NotDeliveredError(Unreachable(code=EndpointCode.CERTIFICATE_REFUSED, text=text))
    reason = (_reason(problem) or str(problem)).replace("_", " ").lower()
    text = f"No TLS connection: {reason}."
    return NotDeliveredError(Unreachable(code=EndpointCode.TLS_FAILED, text=text))
