"""Logins of an endpoint over HTTP: headers made once, or tokens that end."""

import base64
import time
from collections.abc import Mapping
from threading import Lock
from typing import Final
from urllib.parse import urlencode

import httpcore
import httpx
from authlib.common.errors import AuthlibBaseError
from authlib.oauth2.auth import ClientAuth
from authlib.oauth2.client import OAuth2Client

from integration.endpoint_types.exchange import STANDING, Cookies, Exchanges
from integration.endpoint_types.http.answers import without
from integration.endpoint_types.http.properties import HttpProperties
from integration.endpoints.codes import EndpointCode
from integration.endpoints.port import Answer, NotDeliveredError, Unreachable

MAX_TOKEN_BYTES: Final = 64 * 1024
# A token is renewed this long before it ends, so that it does not end on its way.
EARLY_SECONDS: Final = 30.0
# What an answer that is none makes the library raise: numbers without end and deep nesting, too.
NO_TOKEN: Final = (ValueError, ArithmeticError, LookupError, TypeError, RecursionError)


class Login:
    """The addition to each request: the same header, or none, for every one."""

    def __init__(self, headers: Mapping[str, str]) -> None:
        self._headers = headers

    def headers(self) -> Mapping[str, str]:
        """Raises NotDeliveredError when no token can be had."""
        return self._headers

    def renew(self, refused: Mapping[str, str]) -> bool:  # noqa: ARG002 - nothing to renew
        """The partner refused these headers: whether another try with new ones makes sense."""
        return False


class TokenLogin(Login):
    """A bearer token by OAuth2 client credentials, shared by all threads until it ends."""

    def __init__(self, properties: HttpProperties, exchanges: Exchanges) -> None:
        super().__init__({})
        self._url = properties.token_url
        self._secret = properties.client_secret
        self._oauth = OAuth2Client(
            session=_Session(exchanges),
            client_id=properties.client_id,
            client_secret=properties.client_secret,
            scope=properties.scope or None,
            grant_type="client_credentials",
        )
        self._lock = Lock()
        self._token = ""
        self._ends_at = 0.0
        self._refusal: Answer | None = None
        self._refused_at = 0.0

    def headers(self) -> Mapping[str, str]:
        asked_at = time.monotonic()
        with self._lock:
            if not self._token or time.monotonic() >= self._ends_at:
                # Who waited for another's fetch waited for its end, good or bad: with one of its
                # own for each of them the last would be overdue before it has sent anything.
                if self._refusal is not None and asked_at <= self._refused_at:
                    raise NotDeliveredError(self._refusal)
                self._fetch()
            return {"Authorization": f"Bearer {self._token}"}

    def renew(self, refused: Mapping[str, str]) -> bool:
        with self._lock:
            if refused.get("Authorization") == f"Bearer {self._token}":
                self._token = ""
        return True

    def _fetch(self) -> None:
        """Get a token, or remember why there is none. Raises NotDeliveredError."""
        self._token = ""
        try:
            self._token, seconds = self._given()
        except NotDeliveredError as problem:
            self._refusal, self._refused_at = problem.answer, time.monotonic()
            raise
        self._ends_at = time.monotonic() + max(seconds - EARLY_SECONDS, seconds / 2)

    def _given(self) -> tuple[str, float]:
        """A token, and its seconds. Raises NotDeliveredError, also for an answer that is none."""
        try:
            token = self._oauth.fetch_token(self._url)
            text, seconds = str(token["access_token"]), float(token.get("expires_in") or 3_600)
        except httpcore.TimeoutException as problem:
            raise _refused("there was no answer in time") from problem
        except (httpcore.NetworkError, httpcore.ProtocolError) as problem:
            raise _refused("the connection broke off") from problem
        except (AuthlibBaseError, httpx.HTTPStatusError) as problem:
            words = str(problem).splitlines()[0].encode("utf-8", "replace")
            reason = without(words, [self._secret])
            raise _refused(reason.decode("utf-8", "replace")) from problem
        except NO_TOKEN as problem:
            raise _refused("the answer holds no token") from problem
        if not text.isascii() or not text.isprintable():
            raise _refused("the token cannot stand in a header")
        return text, seconds


def login_for(properties: HttpProperties, exchanges: Exchanges) -> Login:
    """The login that the properties ask for."""
    match properties.auth:
        case "basic":
            pair = f"{properties.username}:{properties.password}".encode()
            return Login({"Authorization": f"Basic {base64.b64encode(pair).decode()}"})
        case "bearer":
            return Login({"Authorization": f"Bearer {properties.token}"})
        case "api_key":
            return Login({properties.api_key_header: properties.api_key})
        case "oauth2":
            return TokenLogin(properties, exchanges)
        case _:
            return Login({})


class _Session:
    """The session that the library asks for: an answer that cannot grow."""

    def __init__(self, exchanges: Exchanges) -> None:
        self._exchanges = exchanges
        self._cookies = Cookies()

    def post(
        self, url: str, *, data: Mapping[str, str], headers: Mapping[str, str], auth: ClientAuth
    ) -> httpx.Response:
        address, sent, content = auth.prepare("POST", url, dict(headers), urlencode(data))
        to, body = httpx.URL(address), bytearray()
        sent = {**STANDING, **sent, **self._cookies.headers("POST", to)}
        reply = self._exchanges.ask("POST", to, sent, content.encode())
        try:
            self._cookies.keep("POST", to, reply)
            for piece in reply.pieces():
                body += piece
                if len(body) > MAX_TOKEN_BYTES:
                    raise _refused("the answer is too long for a token")
        finally:
            reply.close()
        return httpx.Response(
            reply.status,
            headers={"Content-Type": reply.headers.get("content-type", "")},
            content=bytes(body),
            request=httpx.Request("POST", to),
        )


def _refused(reason: str) -> NotDeliveredError:
    text = f"No token was given: {reason}."
    return NotDeliveredError(Unreachable(code=EndpointCode.TOKEN_REFUSED, text=text))
