"""Callers: from the credentials of a request to the external system it speaks for."""

import base64
import binascii
import hmac
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from django.db.models import BooleanField, ExpressionWrapper, Q

from integration.http_api.errors import (
    LegacyAddressOffError,
    NotAuthenticatedError,
    NotInScopeError,
    TokenOverError,
    WrongSystemError,
)
from integration.http_api.remembered import Remembered
from integration.http_api.tokens import hash_of, is_token, prefix_of
from integration.models import ApiToken
from integration.models.http_api import Doing
from integration.store.sessions import database_now, execute

TOUCHED_SECONDS: Final = 60.0
# Compared with when no token of that prefix exists, so that the answer takes as long.
_NOBODY: Final = hash_of("")


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """A known sender with what its token allows; `services` empty = all.

    `users` are those that it may speak for.
    """

    token_id: int
    token_name: str
    token_hash: str
    over: str
    doings: frozenset[Doing]
    services: frozenset[str]
    users: frozenset[str]
    system_id: int
    system: str
    requests_per_minute: int | None
    max_body_bytes: int
    legacy_door: bool

    def need(self, doing: Doing, service: str | None = None, *, system: str | None = None) -> None:
        """Raises WrongSystemError where an address names another system than the token's own.

        Nothing tells whether a foreign system exists. Raises NotInScopeError unless the token
        allows this for the service.
        """
        if system not in {None, self.system}:
            raise WrongSystemError(system=system)
        if doing not in self.doings:
            raise NotInScopeError(wanted=doing.value[1])
        if service is not None and self.services and service not in self.services:
            raise NotInScopeError(wanted=f"use the service {service[:100]!r}")


class Credentials(NamedTuple):
    """A token as it came; `user` beside it where the scheme has one."""

    token: str
    user: str | None
    is_legacy: bool = False


def credentials_in(authorization: str, maxauth: str) -> Credentials | None:
    """Read the two headers; None when they hold nothing usable. MAXAUTH counts alone."""
    scheme, _, rest = authorization.strip().partition(" ")
    if scheme.lower() == "bearer" and rest.strip():
        return Credentials(rest.strip(), None)
    if scheme.lower() == "basic":
        return _pair(rest, is_legacy=False)
    return _pair(maxauth, is_legacy=True) if maxauth and not authorization else None


def _pair(text: str, *, is_legacy: bool) -> Credentials | None:
    try:
        plain = base64.b64decode(text.strip(), validate=True).decode()
    except (binascii.Error, ValueError):
        return None
    user, colon, token = plain.partition(":")
    return Credentials(token, user, is_legacy) if colon else None


def caller_of(credentials: Credentials | None, *, is_legacy_path: bool = False) -> Caller:
    """Identify them. Raises NotAuthenticatedError, TokenOverError or LegacyAddressOffError."""
    prefix = None if credentials is None else prefix_of(credentials.token)
    if credentials is None or prefix is None:
        raise NotAuthenticatedError
    caller = _callers.get(prefix)
    token_hash = _NOBODY if caller is None else caller.token_hash
    if not is_token(credentials.token, token_hash) or not caller:
        raise NotAuthenticatedError
    if credentials.user is not None and not _is_named(credentials.user, caller):
        raise NotAuthenticatedError
    if caller.over:
        raise TokenOverError(over=caller.over)
    if (credentials.is_legacy or is_legacy_path) and not caller.legacy_door:
        raise LegacyAddressOffError
    _touch(caller)
    return caller


def _is_named(user: str, caller: Caller) -> bool:
    names = (caller.token_name, caller.system)
    # Both are compared, so that the answer takes as long.
    return sum(hmac.compare_digest(user.encode(), name.encode()) for name in names) > 0


def _read(prefix: str) -> Caller | None:
    is_over = ExpressionWrapper(Q(expires_at__lte=database_now()), output_field=BooleanField())
    tokens = ApiToken.objects.select_related("system").annotate(is_expired=is_over)
    row: Any = tokens.filter(prefix=prefix).first()
    if row is None:
        return None
    over = "was revoked" if row.revoked_at else "has expired" if row.is_expired else ""
    return Caller(
        token_id=row.pk,
        token_name=row.name,
        token_hash=row.token_hash,
        over=over,
        doings=frozenset(doing for doing in Doing if getattr(row, doing.value[0])),
        services=frozenset(row.services),
        users=frozenset(row.users),
        system_id=row.system.pk,
        system=row.system.name,
        requests_per_minute=row.system.requests_per_minute,
        max_body_bytes=row.system.max_body_bytes,
        legacy_door=row.system.legacy_door,
    )


_callers: Final[Remembered[str, Caller]] = Remembered(_read)
_touched: Final[dict[int, float]] = {}


def _touch(caller: Caller, clock: Callable[[], float] = time.monotonic) -> None:
    """Note that the token is in use, at most once a minute by all processes together."""
    now = clock()
    if now - _touched.get(caller.token_id, -TOUCHED_SECONDS) < TOUCHED_SECONDS:
        return
    _touched[caller.token_id] = now
    execute(TOUCH, [caller.token_id])


TOUCH: Final = (
    "UPDATE integration_apitoken SET last_used_at = clock_timestamp() WHERE id = %s AND "
    "(last_used_at IS NULL OR last_used_at < clock_timestamp() - interval '1 minute')"
)


def forget() -> None:
    """Ask the database again at the next request; other processes do within a second."""
    _callers.forget()
