"""The company's identity provider: asked who somebody is, by OpenID Connect.

Authlib does what the protocol asks for: PKCE, state and nonce, kept in the session and used once;
keys, signature and claims of the ID token. No token outlives the login: none is stored.
"""

import logging
import re
import time
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from authlib.common.errors import AuthlibBaseError
from authlib.integrations.base_client.errors import MismatchingStateError, OAuthError
from authlib.integrations.django_client import DjangoOAuth2App
from authlib.integrations.django_client.integration import DjangoIntegration
from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from joserfc.errors import ClaimError, JoseError
from requests import RequestException

from console.people.company.errors import (
    IdentityAnswerRefusedError,
    IdentityDeniedError,
    IdentityProviderDownError,
)
from console.people.company.told import Told, leaves_groups_out, told_by, value_of

log = logging.getLogger(__name__)
DISCOVERY: Final = "/.well-known/openid-configuration"
TIMEOUT_SECONDS: Final = 5.0
# So long somebody may take at the provider before its addresses are asked for again.
KNOWN_SECONDS: Final = 3_600
# What proves that the provider wrote a token: none whose key its reader has, too.
SIGNATURES: Final = frozenset(
    f"{family}{bits}" for family in ("RS", "PS", "ES") for bits in (256, 384, 512)
) | {"EdDSA", "Ed25519"}
ENDPOINTS: Final = ("authorization_endpoint", "token_endpoint", "jwks_uri")
CODE: Final = re.compile(r"[a-z_]{1,40}")
CLOCKS: Final = frozenset({"exp", "iat", "nbf"})

# What the provider's server of tokens says of a code, as RFC 6749 calls it.
REFUSALS: Final = {
    "invalid_grant": "its code was used already, or is too old",
    "invalid_client": "the identity provider does not know this console by "
    "SLUICE_OIDC_CLIENT_ID and SLUICE_OIDC_CLIENT_SECRET",
}
_known: Final[dict[tuple[str, ...], Any]] = {}


class MisfitError(ValueError):
    """The provider is another one than was named, or lacks what a login needs."""


def is_set_up() -> bool:
    return bool(settings.SLUICE_OIDC_ISSUER)


def sent(
    request: HttpRequest, back_to: str, note: Mapping[str, str], *, again: bool = False
) -> HttpResponse:
    """Send the browser to the provider, which sends it back to `back_to`.

    `note` is kept until then; of several tabs each has its own. With `again` the person has to
    prove once more who they are, logged in there or not. Raises IdentityProviderDownError.
    """
    more = {"prompt": "login", "max_age": "0"} if again else {}
    # Asked each time: a browser that is sent to a provider which is down comes back no more.
    client = _client(is_fresh=True)
    begun = client.create_authorization_url(back_to, **more)
    client.save_authorize_data(request, redirect_uri=back_to, note=dict(note), **begun)
    return HttpResponseRedirect(begun["url"])


def noted(request: HttpRequest) -> Mapping[str, str]:
    """What was noted when the browser was sent; empty where it was not, or came back before.

    Asked before `came_back`. Raises IdentityProviderDownError.
    """
    state = request.GET.get("state", "")
    kept = _client().framework.get_state_data(request.session, state) or {}
    note: Mapping[str, str] = kept.get("note", {})
    return note


def came_back(request: HttpRequest) -> Told:
    """The person whom the provider's answer in this request tells of.

    Raises IdentityProviderDownError, IdentityDeniedError, IdentityAnswerRefusedError,
    IdentityTooManyGroupsError.
    """
    if error := request.GET.get("error"):
        raise IdentityDeniedError(error if CODE.fullmatch(error) else "without a reason")
    client = _client()
    try:
        token = client.authorize_access_token(
            request, claims_options=_expected(client), leeway=settings.SLUICE_OIDC_SKEW_SECONDS
        )
        claims = _claims(client, token)
    except RequestException as problem:
        raise _down(problem) from problem
    except (AuthlibBaseError, JoseError, ValueError, KeyError, TypeError) as problem:
        # Its text may quote what was sent: the kind of problem says enough.
        log.warning("company login: an answer was refused (%s)", type(problem).__name__)
        raise IdentityAnswerRefusedError(_why(problem)) from problem
    return told_by(
        claims,
        name_claim=settings.SLUICE_OIDC_NAME_CLAIM,
        groups_claim=settings.SLUICE_OIDC_GROUPS_CLAIM,
    )


def _claims(client: Any, token: Mapping[str, Any]) -> Mapping[str, Any]:
    """The claims of the ID token, with those that the provider tells only when asked."""
    claims: Mapping[str, Any] | None = token.get("userinfo")
    if claims is None:
        raise IdentityAnswerRefusedError("there is no ID token in it")
    is_complete = value_of(claims, settings.SLUICE_OIDC_GROUPS_CLAIM) is not None
    if not is_complete and leaves_groups_out(claims):
        raise IdentityAnswerRefusedError(
            "you have more groups than it writes down; let it write only those of this console"
        )
    if is_complete or not client.server_metadata.get("userinfo_endpoint"):
        return claims
    more = client.userinfo(token=token)
    # Another person's answer must not be mixed in.
    return {**more, **claims} if more.get("sub") == claims["sub"] else claims


def _expected(client: Any) -> dict[str, dict[str, object]]:
    issuer = client.server_metadata["issuer"]
    return {
        "iss": {"essential": True, "value": issuer},
        "aud": {"essential": True, "value": settings.SLUICE_OIDC_CLIENT_ID},
    }


def _client(*, is_fresh: bool = False) -> Any:
    """Authlib's client, which knows the provider's addresses and keys; `is_fresh` asks anew.

    Raises IdentityProviderDownError.
    """
    wanted = (
        settings.SLUICE_OIDC_ISSUER,
        settings.SLUICE_OIDC_CLIENT_ID,
        settings.SLUICE_OIDC_CLIENT_SECRET,
        settings.SLUICE_OIDC_SCOPES,
    )
    client = None if is_fresh else _known.get(wanted)
    if client is None or time.time() - client.server_metadata["_loaded_at"] > KNOWN_SECONDS:
        try:
            client = _asked(*wanted)
        except (RequestException, ValueError, TypeError, KeyError) as problem:
            raise _down(problem) from problem
        _known[wanted] = client
    return client


def _asked(issuer: str, client_id: str, secret: str, scopes: str) -> Any:
    client = DjangoOAuth2App(
        DjangoIntegration("sluice"),
        name="sluice",
        client_id=client_id,
        client_secret=secret or None,
        server_metadata_url=f"{issuer}{DISCOVERY}",
        client_kwargs={
            "scope": scopes,
            "code_challenge_method": "S256",
            "default_timeout": TIMEOUT_SECONDS,
        },
    )
    said = client.load_server_metadata()
    _check(issuer, said)
    client.client_kwargs["token_endpoint_auth_method"] = _proof(secret, said)
    offered = said.get("id_token_signing_alg_values_supported") or ["RS256"]
    said["id_token_signing_alg_values_supported"] = sorted(SIGNATURES & set(offered))
    return client


def _check(issuer: str, said: Mapping[str, Any]) -> None:
    """Raises MisfitError where the provider is not the one that was named."""
    if str(said.get("issuer", "")).rstrip("/") != issuer.rstrip("/"):
        raise MisfitError("it calls itself by another address than SLUICE_OIDC_ISSUER")
    for name in ENDPOINTS:
        address = said.get(name)
        if not isinstance(address, str) or not address:
            raise MisfitError(f"it does not say its {name}")
        if urlsplit(issuer).scheme == "https" != urlsplit(address).scheme:
            raise MisfitError(f"its {name} is without TLS")


def _proof(secret: str, said: Mapping[str, Any]) -> str:
    """How this client proves to the provider who it is."""
    if not secret:
        return "none"
    known = said.get("token_endpoint_auth_methods_supported") or ["client_secret_basic"]
    is_basic = "client_secret_basic" in known or "client_secret_post" not in known
    return "client_secret_basic" if is_basic else "client_secret_post"


def _down(problem: Exception) -> IdentityProviderDownError:
    is_ours = isinstance(problem, MisfitError)
    what = str(problem) if is_ours else "the identity provider does not answer as it should"
    log.warning("company login: %s (%s)", what, type(problem).__name__)
    return IdentityProviderDownError(what)


def _why(problem: Exception) -> str:
    if isinstance(problem, MismatchingStateError):
        return "it was used already, or the login began elsewhere or long ago"
    if isinstance(problem, OAuthError):
        return REFUSALS.get(str(problem.error), "the identity provider does not stand by it")
    if isinstance(problem, ClaimError) and problem.claim in CLOCKS:
        return "by its time it is not valid now; compare this host's clock with the provider's"
    if isinstance(problem, ClaimError):
        return f"its ID token is not for this login ({problem.claim})"
    return "its ID token could not be verified"
