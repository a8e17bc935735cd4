"""The properties of an endpoint over HTTP."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from integration.endpoint_types import checks
from integration.endpoints.declared import (
    FIELDS,
    Properties,
    Shape,
    declare,
    part,
    private_network,
    seconds,
    secret,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpProperties(Properties):
    """A request for each message."""

    label: ClassVar[str] = "HTTP"
    about: ClassVar[str] = (
        "One request for each message: a web service, an API, another integration platform."
    )
    repeats: ClassVar[str] = (
        "Switch it on only when the partner drops repeats of a message id by itself."
    )
    parts = (
        part("Request", "url method headers id_header success"),
        part(
            "Login",
            "auth username password token api_key_header api_key token_url client_id client_secret "
            "scope",
        ),
        part("Signature", "signing_secret former_signing_secret"),
        part(
            "Certificates and network",
            "private_network ca_certificate client_certificate client_key",
        ),
        part("Proxy", "proxy proxy_url proxy_username proxy_password"),
        part("Time limits", "connect_seconds read_seconds total_seconds"),
    )
    waits_at_most: ClassVar[str] = "total_seconds"
    sends_id_by = ("id_header", "Idempotency-Key")
    secrets_go_by = (
        *("url", "token_url", "username", "client_id", "ca_certificate"),
        *("proxy", "proxy_url", "proxy_username"),
    )

    url: str = declare(
        "Address",
        shape=Shape.TEMPLATE,
        help=f"Where each message goes. Path and query may hold {FIELDS}; their values are "
        "percent-encoded. A message without such a field is refused and held.",
        is_needed=True,
        check=checks.address,
    )
    method: str = declare(
        "Method",
        "POST",
        shape=Shape.CHOICE,
        help="GET and DELETE send no body.",
        choices=tuple((m, m) for m in ("POST", "PUT", "PATCH", "DELETE", "GET")),
    )
    headers: Mapping[str, str] = declare(
        "Headers",
        {},
        shape=Shape.PAIRS,
        help="One NAME: VALUE per line, with the same fields. Content-Type is the message's own "
        "unless it stands here.",
        check=checks.headers,
    )
    id_header: str = declare(
        "Header with the message id",
        sends_id_by[1],
        help="A partner that remembers it drops repeats; then say below that it does.",
        check=checks.header,
    )
    success: str = declare(
        "Statuses that mean delivered",
        "200-299",
        help="Others: 408, 425 and 5xx are tried again; 429, 502 and 503 count as an outage; "
        "after 504 the message may have arrived; the rest hold the message.",
        check=checks.statuses,
    )
    auth: str = declare(
        "Login",
        "none",
        shape=Shape.CHOICE,
        help="How the partner knows us.",
        choices=(
            ("none", "None"),
            ("basic", "User and password (basic)"),
            ("bearer", "Bearer token"),
            ("api_key", "API key in a header"),
            ("oauth2", "OAuth2 client credentials"),
        ),
    )
    username: str = declare("User", is_needed=True, only=("auth", ("basic",)))
    api_key_header: str = declare(
        "Header of the API key", "X-API-Key", only=("auth", ("api_key",)), check=checks.header
    )
    token_url: str = declare(
        "Address of tokens",
        help="Asked for a token with client id and secret; asked again when it has ended, or "
        "once when the partner answers 401.",
        is_needed=True,
        only=("auth", ("oauth2",)),
        check=checks.address,
    )
    client_id: str = declare("Client id", is_needed=True, only=("auth", ("oauth2",)))
    scope: str = declare("Scope", help="As the partner names it.", only=("auth", ("oauth2",)))
    ca_certificate: str = declare(
        "CA certificates",
        shape=Shape.PEM,
        help="PEM. Empty: the machine's trusted authorities.",
    )
    client_certificate: str = declare(
        "Our certificate",
        shape=Shape.PEM,
        help="PEM; only where the partner asks for one.",
    )
    connect_seconds: float = seconds(
        "Seconds to connect", 5.0, "No connection within them counts as an outage."
    )
    read_seconds: float = seconds(
        "Seconds between pieces of an answer",
        30.0,
        "Silence for longer ends the call; what was sent may have arrived then.",
    )
    total_seconds: float = seconds(
        "Seconds for a whole call", 60.0, "However the answer comes in, it ends then."
    )
    private_network: bool = private_network()
    proxy: str = declare(
        "Forward proxy",
        "default",
        shape=Shape.CHOICE,
        help="How the partner is reached. That of this installation is SLUICE_HTTP_PROXY.",
        choices=(
            ("default", "That of this installation"),
            ("none", "None"),
            ("own", "Another one"),
        ),
    )
    proxy_url: str = declare(
        "Address of the proxy",
        help="As in http://proxy.example.org:3128. At a private address only where private "
        "networks are permitted.",
        is_needed=True,
        only=("proxy", ("own",)),
        check=checks.proxy,
    )
    proxy_username: str = declare(
        "User at the proxy", help="Empty: it asks for none.", only=("proxy", ("own",))
    )
    password: str = secret("Password", only=("auth", ("basic",)))
    token: str = secret("Token", only=("auth", ("bearer",)), is_needed=True)
    api_key: str = secret("API key", only=("auth", ("api_key",)), is_needed=True)
    client_secret: str = secret("Client secret", only=("auth", ("oauth2",)), is_needed=True)
    proxy_password: str = secret("Password at the proxy", only=("proxy", ("own",)))
    signing_secret: str = secret(
        "Signing secret",
        help="Each request is signed with it, as Standard Webhooks has it: webhook-id, "
        "webhook-timestamp, webhook-signature. One that begins with whsec_ is taken for base64. "
        "Empty: no signature.",
    )
    former_signing_secret: str = secret(
        "Former signing secret",
        help="While the partner still knows the old one: requests are signed with both.",
    )
    client_key: str = secret("Our private key", shape=Shape.PEM, help="PEM, of our certificate.")
