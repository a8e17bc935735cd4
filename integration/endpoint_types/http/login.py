"""How an endpoint over HTTP shows who we are: headers made once, or tokens that end."""

import base64
import time
from collections.abc import Mapping
from threading import Lock
from typing import Final, Protocol
from urllib.parse import urlencode

import httpcore
import httpx
from authlib.common.errors import AuthlibBaseError
from authlib.oauth2.auth import ClientAuth
from authlib.oauth2.client import OAuth2Client

from integration.endpoint_types.hiding import without
from integration.endpoint_types.http.properties import HttpProperties
from integration.endpoint_types.network import NotConnectedError
from integration.endpoints.codes import EndpointCode

MAX_TOKEN_BYTES: Final = 64 * 1024
# A token is renewed this long before it ends, so that it does not end on its way.
EARLY_SECONDS: Final = 30.0


class Login(Protocol):
    """What is added to each request."""

    def headers(self) -> Mapping[str, str]:
        """Raises NotConnectedError when no token can be had."""

    def renew(self, refused: Mapping[str, str]) -> bool:
        """The partner refused these headers: whether another try with new ones makes sense."""


class FixedLogin:
    """The same header, or none, for every request."""

    def __init__(self, headers: Mapping[str, str]) -> None:
        self._headers = headers

    def headers(self) -> Mapping[str, str]:
        return self._headers

    def renew(self, refused: Mapping[str, str]) -> bool:  # noqa: ARG002 - nothing to renew
        return False


class TokenLogin:
    """A bearer token by OAuth2 client credentials, shared by all threads until it ends."""

    def __init__(self, properties: HttpProperties, client: httpx.Client) -> None:
        self._url = properties.token_url
        self._secret = properties.client_secret
        self._oauth = OAuth2Client(
            session=_Bounded(client),
            client_id=properties.client_id,
            client_secret=properties.client_secret,
            scope=properties.scope or None,
            grant_type="client_credentials",
        )
        self._lock = Lock()
        self._token = ""
        self._ends_at = 0.0

    def headers(self) -> Mapping[str, str]:
        with self._lock:
            if not self._token or time.monotonic() >= self._ends_at:
                self._fetch()
            return {"Authorization": f"Bearer {self._token}"}

    def renew(self, refused: Mapping[str, str]) -> bool:
        with self._lock:
            if refused.get("Authorization") == f"Bearer {self._token}":
                self._token = ""
        return True

    def _fetch(self) -> None:
        """Get a token. Raises NotConnectedError, also when the other side's answer is none."""
        self._token = ""
        try:
            token = self._oauth.fetch_token(self._url)
            text, seconds = str(token["access_token"]), float(token.get("expires_in") or 3_600)
        except NotConnectedError:
            raise
        except httpcore.TimeoutException as problem:
            raise _refused("there was no answer in time") from problem
        except (httpcore.NetworkError, httpcore.ProtocolError) as problem:
            raise _refused("the connection broke off") from problem
        except (AuthlibBaseError, httpx.HTTPStatusError) as problem:
            told = without(str(problem).splitlines()[0].encode(), [self._secret])
            raise _refused(told.decode("utf-8", "replace")) from problem
        except (ValueError, KeyError, TypeError) as problem:
            raise _refused("the answer holds no token") from problem
        if not text.isascii() or not text.isprintable():
            raise _refused("the token cannot stand in a header")
        self._token = text
        self._ends_at = time.monotonic() + max(seconds - EARLY_SECONDS, seconds / 2)


def login_for(properties: HttpProperties, client: httpx.Client) -> Login:
    """The login that the properties ask for."""
    match properties.auth:
        case "basic":
            pair = f"{properties.username}:{properties.password}".encode()
            return FixedLogin({"Authorization": f"Basic {base64.b64encode(pair).decode()}"})
        case "bearer":
            return FixedLogin({"Authorization": f"Bearer {properties.token}"})
        case "api_key":
            return FixedLogin({properties.api_key_header: properties.api_key})
        case "oauth2":
            return TokenLogin(properties, client)
        case _:
            return FixedLogin({})


class _Bounded:
    """What the library asks of a session, with an answer that cannot grow."""

    def __init__(self, client: httpx.Client) -> None:
        self._client = client

    def post(
        self, url: str, *, data: Mapping[str, str], headers: Mapping[str, str], auth: ClientAuth
    ) -> httpx.Response:
        url, sent, content = auth.prepare("POST", url, dict(headers), urlencode(data))
        with self._client.stream("POST", url, headers=sent, content=content) as answer:
            body = bytearray()
            for piece in answer.iter_raw():
                body += piece
                if len(body) > MAX_TOKEN_BYTES:
                    raise _refused("the answer is too long for a token")
            return httpx.Response(
                answer.status_code,
                headers={"Content-Type": answer.headers.get("Content-Type", "")},
                content=bytes(body),
                request=answer.request,
            )


def _refused(reason: object) -> NotConnectedError:
    return NotConnectedError(EndpointCode.TOKEN_REFUSED, f"No token was given: {reason}.")
