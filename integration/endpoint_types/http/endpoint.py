"""Delivery over HTTP: one request for each message, each of its endings an answer."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final
from urllib.parse import quote, urlsplit

import httpcore
import httpx
from django.utils import timezone

from integration.certificates import tls_context
from integration.endpoint_types.addresses import PERMIT_IN_ENDPOINT
from integration.endpoint_types.checks import ranges_of
from integration.endpoint_types.exchange import PORTS, STANDING, Cookies, Exchanges, Reply
from integration.endpoint_types.http.answers import (
    LOGINS,
    REDIRECTS,
    answer_to,
    by_proxy,
    excerpt_of,
    without,
)
from integration.endpoint_types.http.login import login_for
from integration.endpoint_types.http.properties import HttpProperties
from integration.endpoint_types.http.signing import signed
from integration.endpoint_types.network import Call, Network
from integration.endpoint_types.proxying import Proxy, default_proxy, own_proxy
from integration.endpoints.codes import EndpointCode
from integration.endpoints.port import (
    CLOSED,
    Accepted,
    Answer,
    NotDeliveredError,
    OutboundMessage,
    Refused,
    Unknown,
    Unreachable,
)
from integration.endpoints.templates import FieldMissingError, Fields, Template
from integration.tracing.context import texts_of

MAX_REDIRECTS: Final = 3
# The part of an answer that is read; the rest stays, and the connection is closed.
MAX_ANSWER_BYTES: Final = 64 * 1024
MAX_HEADER_CHARACTERS: Final = 4_000
WITHOUT_BODY: Final = frozenset({"GET", "DELETE"})


class HttpEndpoint:
    """One opened endpoint over HTTP; see integration.endpoints.port.Deliverer."""

    at_once = 1

    def __init__(self, properties: HttpProperties, *, permit: str = PERMIT_IN_ENDPOINT) -> None:
        """`permit` says where a person permits private networks, if that is what it lacks.

        Raises ValueError for a certificate that cannot be read.
        """
        tls = tls_context(
            properties.ca_certificate, properties.client_certificate, properties.client_key
        )
        self.within_seconds: float | None = properties.total_seconds
        self._properties = properties
        self._tls = tls
        self._call = Call()
        self._proxy = _proxy_of(properties)
        private = properties.private_network
        self._network = Network(self._call, private=private, proxy=self._proxy, permit=permit)
        connect, read = properties.connect_seconds, properties.read_seconds
        self._exchanges = Exchanges(self._network, tls, connect_seconds=connect, read_seconds=read)
        self._cookies = Cookies()
        self._login = login_for(properties, self._exchanges)
        own = {name.lower() for name in (*properties.headers, properties.id_header)}
        self._standing = {n: v for n, v in STANDING.items() if n.lower() not in own}
        self._url = Template(properties.url)
        # Without fields it is the same for every message, and read once.
        self._plain_url = _plain(self._url.text)
        self._headers = {name: Template(text) for name, text in properties.headers.items()}
        secrets = (properties.signing_secret, properties.former_signing_secret)
        self._signing_secrets = [secret for secret in secrets if secret]
        self._success = ranges_of(properties.success)
        self._is_closed = False

    def deliver(self, messages: Sequence[OutboundMessage]) -> Sequence[Answer]:
        return [self._one(message) for message in messages]

    def connect(self) -> Answer:
        """A connection to the host, and a token where the login needs one; no request."""
        if self._is_closed:
            return CLOSED
        parts = urlsplit(self._properties.url)
        host, port = parts.hostname or "", parts.port or PORTS[parts.scheme]
        with self._call.within(self._properties.total_seconds):
            try:
                seconds = self._properties.connect_seconds
                stream = self._network.connect(parts.scheme, host, port, seconds)
                try:
                    if parts.scheme == "https":
                        stream = stream.start_tls(self._tls, host, seconds)
                finally:
                    stream.close()
                self._login.headers()
            except NotDeliveredError as problem:
                return problem.answer
            except (httpcore.TimeoutException, httpcore.NetworkError) as problem:
                return _unreachable(problem)
        proxy = self._network.proxy_for(host)
        if proxy is not None and parts.scheme == "http":
            return Accepted(text=f"The proxy {proxy.host}:{proxy.port} accepts connections.")
        return Accepted(text=f"{host}:{port} accepts connections.")

    def close(self) -> None:
        self._is_closed = True
        self._exchanges.close()

    def _one(self, message: OutboundMessage) -> Answer:
        if self._is_closed:
            return CLOSED
        try:
            url, headers = self._filled(message)
        except (FieldMissingError, NotDeliveredError) as problem:
            return problem.answer
        with self._call.within(self._properties.total_seconds):
            return self._sent(message, url, headers)

    def _filled(self, message: OutboundMessage) -> tuple[httpx.URL, dict[str, str]]:
        """Raises FieldMissingError, NotDeliveredError."""
        fields = Fields(message)
        url = self._plain_url or self._address(fields)
        headers = {"Content-Type": message.content_type} if message.content_type else {}
        for name, template in self._headers.items():
            headers = {n: v for n, v in headers.items() if n.lower() != name.lower()}
            headers[name] = template.filled(fields)
        named = {name.lower() for name in headers}
        headers |= {n: v for n, v in texts_of(message.headers).items() if n not in named}
        headers[self._properties.id_header] = message.message_id
        headers = self._with_signature(message, headers)
        for name, value in headers.items():
            _check_header(name, value)
        return url, headers

    def _with_signature(self, message: OutboundMessage, headers: dict[str, str]) -> dict[str, str]:
        """The headers, signed if the endpoint signs: its own take the place of any other's."""
        if not self._signing_secrets:
            return headers
        content = b"" if self._properties.method in WITHOUT_BODY else message.body
        # Each try has a time of its own: receivers refuse what was signed long ago.
        now = int(timezone.now().timestamp())
        ours = signed(self._signing_secrets, message.message_id, now, content)
        return {n: v for n, v in headers.items() if n.lower() not in ours} | dict(ours)

    def _address(self, fields: Fields) -> httpx.URL:
        """Raises FieldMissingError, NotDeliveredError."""
        # Nothing of a value is read as a part of the address: not / and not ?, . and .. neither.
        text = self._url.filled(fields, _quoted)
        try:
            return httpx.URL(text)
        except (httpx.InvalidURL, ValueError) as problem:
            text = f"The message makes an address that cannot be used: {problem}."
            raise _unsendable(EndpointCode.HTTP_ADDRESS, text) from problem

    def _sent(self, message: OutboundMessage, url: httpx.URL, headers: dict[str, str]) -> Answer:
        """The answer, after a new login where the old one had ended."""
        answer, login = self._with_login(message, url, headers)
        if answer.status in LOGINS and self._login.renew(login):
            answer, _ = self._with_login(message, url, headers)
        return answer

    def _with_login(
        self, message: OutboundMessage, url: httpx.URL, headers: dict[str, str]
    ) -> tuple[Answer, Mapping[str, str]]:
        try:
            login = self._login.headers()
        except NotDeliveredError as problem:
            return problem.answer, {}
        # What the login itself sent is no part of the message.
        self._call.has_sent = False
        return self._followed(message, url, {**headers, **login}), login

    def _followed(
        self, message: OutboundMessage, url: httpx.URL, headers: dict[str, str]
    ) -> Answer:
        """The answer of where the redirects end; only those on the same host are followed."""
        answer, to = self._asked(message, url, headers)
        for _ in range(MAX_REDIRECTS):
            if to is None or not _is_same_host(url, to):
                break
            url = to
            answer, to = self._asked(message, url, headers)
        return answer if to is None else _redirected(answer.status, url, to)

    def _asked(
        self, message: OutboundMessage, url: httpx.URL, headers: dict[str, str]
    ) -> tuple[Answer, httpx.URL | None]:
        """One request, and where it redirects to."""
        method = self._properties.method
        body = None if method in WITHOUT_BODY else message.body
        sent = {**self._standing, **headers, **self._cookies.headers(method, url)}
        try:
            reply = self._exchanges.ask(method, url, sent, body)
            try:
                self._cookies.keep(method, url, reply)
                return self._read(reply, url, self._secrets(sent))
            finally:
                reply.close()
        except NotDeliveredError as problem:
            return problem.answer, None
        except (httpcore.TimeoutException, httpcore.NetworkError, httpcore.ProtocolError) as e:
            return (_no_answer(e) if self._call.has_sent else _unreachable(e)), None

    def _read(
        self, reply: Reply, url: httpx.URL, secrets: Sequence[str]
    ) -> tuple[Answer, httpx.URL | None]:
        body, is_whole = bytearray(), True
        try:
            for piece in reply.pieces():
                body += piece
                if len(body) > MAX_ANSWER_BYTES:
                    break
        except (httpcore.TimeoutException, httpcore.NetworkError, httpcore.ProtocolError):
            is_whole = False
        answer = answer_to(
            reply.status,
            reply.headers,
            excerpt_of(without(bytes(body), secrets)),
            success=self._success,
            now=timezone.now(),
        )
        if url.scheme == "http" and self._network.proxy_for(url.host) is not None:
            answer = by_proxy(answer, reply.headers)
        if isinstance(answer, Accepted):
            return (answer if is_whole else _broken_off(answer)), None
        location = reply.headers.get("location", "")
        if reply.status not in REDIRECTS or not location:
            return answer, None
        try:
            return answer, url.join(location)
        except (httpx.InvalidURL, ValueError):
            return answer, None

    def _secrets(self, sent: Mapping[str, str]) -> list[str]:
        """List what an answer that quotes the request must not bring into a page or a log."""
        own = self._properties
        login = sent.get("Authorization", "").partition(" ")[2]
        of_proxy = [] if self._proxy is None else self._proxy.secrets
        logins = [login, own.password, own.token, own.api_key, own.client_secret]
        return [*logins, *self._signing_secrets, *of_proxy]


def _proxy_of(properties: HttpProperties) -> Proxy | None:
    match properties.proxy:
        case "own":
            own = properties
            return own_proxy(own.proxy_url, own.proxy_username, own.proxy_password)
        case "none":
            return None
        case _:
            return default_proxy()


def _plain(text: str) -> httpx.URL | None:
    """The address when nothing in it is a template's; None when it has to be made each time."""
    if "{" in text or "}" in text:
        return None
    with suppress(httpx.InvalidURL, ValueError):
        return httpx.URL(text)
    return None


def _quoted(value: str) -> str:
    # Dots alone are steps of a path also where they are percent-encoded, to some servers.
    if value in {".", ".."}:
        sentence = f"A field of the address is “{value}”, which would be a step in its path."
        raise _unsendable(EndpointCode.HTTP_ADDRESS, sentence)
    return quote(value, safe="")


def _unsendable(code: EndpointCode, text: str) -> NotDeliveredError:
    """The message gives an address or a header that cannot be sent."""
    return NotDeliveredError(Refused(code=code, text=text))


def _check_header(name: str, value: str) -> None:
    is_sendable = value.isascii() and value.isprintable() and value == value.strip()
    if not is_sendable or len(value) > MAX_HEADER_CHARACTERS:
        sentence = (
            f"The header {name} would hold what no header can: characters beyond ASCII, line "
            f"ends, outer blanks, or more than {MAX_HEADER_CHARACTERS:,} characters."
        )
        raise _unsendable(EndpointCode.HTTP_HEADER, sentence)


def _is_same_host(one: httpx.URL, other: httpx.URL) -> bool:
    """The same machine and service; from http to https of the same name is no other one."""
    if one.host.lower() != other.host.lower() or other.scheme not in PORTS:
        return False
    ports = (one.port or PORTS[one.scheme], other.port or PORTS[other.scheme])
    if one.scheme == other.scheme:
        return ports[0] == ports[1]
    return other.scheme == "https" and ports == (80, 443)


def _redirected(status: int | None, url: httpx.URL, to: httpx.URL) -> Unreachable:
    text = (
        f"It redirects more than {MAX_REDIRECTS} times."
        if _is_same_host(url, to)
        else f"It answered {status} and points to {to.host[:200]}. Messages are never taken to "
        "another host; correct the address of the endpoint."
    )
    return Unreachable(code=EndpointCode.HTTP_REDIRECTED, text=text, status=status)


def _unreachable(problem: Exception) -> Unreachable:
    """Nothing was sent, so nothing can have arrived."""
    if isinstance(problem, httpcore.TimeoutException):
        text = "There was no connection in time."
        return Unreachable(code=EndpointCode.CONNECT_TIMEOUT, text=text)
    text = f"The connection could not be used: {problem}."
    return Unreachable(code=EndpointCode.CONNECTION_FAILED, text=text)


def _no_answer(problem: Exception) -> Unknown:
    is_late = isinstance(problem, httpcore.TimeoutException)
    what = "no answer came in time" if is_late else "the connection ended without an answer"
    text = f"The message was sent, at least a part of it, and {what}. It may have arrived."
    return Unknown(code=EndpointCode.HTTP_NO_ANSWER, text=text)


def _broken_off(answer: Accepted) -> Unknown:
    text = (
        f"It began to answer {answer.status} and broke off or came to no end in time. The message "
        "may have been taken."
    )
    return Unknown(
        code=EndpointCode.HTTP_BROKEN_OFF,
        text=text,
        status=answer.status,
        excerpt=answer.excerpt,
    )
