"""An identity provider on this machine, which also does what a good one never does."""

import base64
import hashlib
import json
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx
from django.test import Client
from django.urls import reverse
from joserfc import jwt
from joserfc.jwk import ECKey

CLIENT_ID = "sluice-console"
CLIENT_SECRET = "known-to-both-of-us-and-nobody-else"


@dataclass
class IdentityProvider:
    """`claims` are those of whoever logs in; the others are what it does wrong."""

    claims: dict[str, Any]
    # What the ID token says instead of the truth.
    lies: dict[str, Any] = field(default_factory=dict)
    told_on_request: dict[str, Any] = field(default_factory=dict)
    # By so many seconds its clock is ahead.
    ahead: int = 0
    signs_with: ECKey = field(default_factory=lambda: ECKey.generate_key("P-256", private=True))
    shows: ECKey | None = None
    is_broken: bool = False
    issuer: str = ""
    # Everything that must stand in no log.
    handed_out: set[str] = field(default_factory=set)
    asked: dict[str, str] = field(default_factory=dict)
    codes: dict[str, dict[str, str]] = field(default_factory=dict)

    def discovery(self) -> dict[str, Any]:
        return {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/jwks",
            "userinfo_endpoint": f"{self.issuer}/userinfo",
            "id_token_signing_alg_values_supported": ["ES256", "HS256", "none"],
            "token_endpoint_auth_methods_supported": ["client_secret_post"],
        }

    def keys(self) -> dict[str, Any]:
        key = self.shows or self.signs_with
        return {"keys": [{**key.as_dict(private=False), "kid": key.thumbprint()}]}

    def code_for(self, asked: dict[str, str]) -> str:
        code = secrets.token_urlsafe(24)
        self.asked = asked
        self.codes[code] = asked
        self.handed_out |= {code, asked["state"], asked["nonce"]}
        return code

    def tokens_for(self, sent: dict[str, str]) -> tuple[int, dict[str, Any]]:
        """What a code is worth: once, and to who began with it."""
        asked = self.codes.pop(sent.get("code", ""), None)
        self.handed_out.add(sent.get("code_verifier", ""))
        if sent.get("client_secret") != CLIENT_SECRET:
            return 401, {"error": "invalid_client"}
        proof = hashlib.sha256(sent.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(proof).rstrip(b"=").decode()
        if asked is None or challenge != asked["code_challenge"]:
            return 400, {"error": "invalid_grant"}
        now = int(time.time()) + self.ahead
        claims = {
            "iss": self.issuer,
            "aud": CLIENT_ID,
            "iat": now,
            "exp": now + 300,
            "auth_time": now,
            "nonce": asked["nonce"],
            **self.claims,
            **self.lies,
        }
        said = {name: value for name, value in claims.items() if value is not None}
        header = {"alg": "ES256", "kid": (self.shows or self.signs_with).thumbprint()}
        token = jwt.encode(header, said, self.signs_with)
        access = secrets.token_urlsafe(24)
        self.handed_out |= {token, access}
        return 200, {"access_token": access, "token_type": "Bearer", "id_token": token}


class Answers(BaseHTTPRequestHandler):
    """What the provider of its server answers."""

    server: "Serving"

    def do_GET(self) -> None:
        provider, parts = self.server.provider, urlsplit(self.path)
        if provider.is_broken:
            self.say(500, {"error": "server_error"})
        elif parts.path == "/authorize":
            asked = {name: values[0] for name, values in parse_qs(parts.query).items()}
            back = {"code": provider.code_for(asked), "state": asked["state"]}
            self.send_response(302)
            self.send_header("Location", f"{asked['redirect_uri']}?{urlencode(back)}")
            self.end_headers()
        elif parts.path == "/jwks":
            self.say(200, provider.keys())
        elif parts.path == "/userinfo":
            self.say(200, {"sub": provider.claims["sub"], **provider.told_on_request})
        else:
            self.say(200, provider.discovery())

    def do_POST(self) -> None:
        text = self.rfile.read(int(self.headers["Content-Length"])).decode()
        sent = {name: values[0] for name, values in parse_qs(text).items()}
        self.say(*self.server.provider.tokens_for(sent))

    def say(self, status: int, told: dict[str, Any]) -> None:
        body = json.dumps(told).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Tests say nothing."""


class Serving(ThreadingHTTPServer):
    """The server of one provider."""

    provider: IdentityProvider


@contextmanager
def an_identity_provider(**claims: Any) -> Iterator[IdentityProvider]:
    """One that serves until the end; its issuer goes into SLUICE_OIDC_ISSUER."""
    server = Serving(("127.0.0.1", 0), Answers)
    server.provider = IdentityProvider({"sub": "olga-7", "preferred_username": "olga", **claims})
    server.provider.issuer = f"http://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield server.provider
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def came_back(client: Client, begun: Any) -> str:
    """The address to which the provider sends the browser, whom the console had sent there."""
    assert begun.status_code == 302, begun.status_code
    sent = httpx.get(begun["Location"])
    assert sent.status_code == 302
    parts = urlsplit(sent.headers["Location"])
    return f"{parts.path}?{parts.query}"


def logged_in_by(client: Client, to: str = "", **more: str) -> Any:
    """The console's answer to a browser that has been at the provider."""
    query = {**({"next": to} if to else {}), **more}
    return client.get(came_back(client, client.get(reverse("company-login"), query)))
