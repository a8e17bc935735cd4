"""Tokens of the HTTP API: made, rotated and revoked, each with its row of audit."""

import re
from collections.abc import Sequence
from datetime import timedelta
from typing import Final, NamedTuple

from django.db import transaction
from django.db.models import F, Q, QuerySet
from django.db.models.functions import Least

from integration.actions import configuration
from integration.actions.configuration import Author
from integration.actions.shown_once import is_unseen
from integration.errors import IntegrationError
from integration.http_api import callers
from integration.http_api.tokens import new_token
from integration.models import ApiToken, ExternalSystem
from integration.selectors.scope import EVERYTHING, Scope
from integration.selectors.setup.tokens import names_to_limit_to
from integration.store.sessions import database_now

MOST_VALID: Final = 2
RIGHTS: Final = (
    "system",
    "may_post",
    "may_call",
    "may_read",
    "may_publish",
    "services",
    "users",
)
INHERITED: Final = (*RIGHTS, "expires_at")
# What a rotation adds to a name. No name that people give has a dot: `erp-7` and `erp-2024` are two
# tokens, and not one that was rotated.
_NUMBER: Final = re.compile(r"\.\d+$")


class TokenNameTakenError(IntegrationError):
    """The system has a token of that name, valid or not."""

    code = "TOKEN_NAME_TAKEN"

    def __init__(self, name: str) -> None:
        super().__init__(
            f"There is or was a token named {name} already.", next_step="Choose another name."
        )


class TooManyValidError(IntegrationError):
    """Two tokens of this name are valid already."""

    code = "TOO_MANY_VALID_TOKENS"

    def __init__(self, names: list[str], *, is_newest_used: bool) -> None:
        older = "Revoke the older one first, when nobody uses it any more."
        newest = f"Nobody has used {names[-1]} yet: if its text is lost, revoke that one."
        super().__init__(
            f"{' and '.join(names)} are both valid.",
            next_step=older if is_newest_used else f"{newest} Else: {older}",
        )


class TokenOverError(IntegrationError):
    """The token is revoked or expired: nothing can be done with it."""

    code = "TOKEN_IS_OVER"

    def __init__(self, name: str) -> None:
        super().__init__(f"{name} is not valid any more.", next_step="Make a new token.")


class TokenReachesOthersError(IntegrationError):
    """The token would do more than the person who makes it may know of."""

    code = "TOKEN_REACHES_OTHERS"

    def __init__(self) -> None:
        super().__init__(
            "A token that runs services or publishes reaches all external systems unless it names "
            "services and channels, and your account is limited to some external systems.",
            next_step="Choose services and channels, or ask an administrator without that limit.",
        )


class Made(NamedTuple):
    """A token with its text, which is known here for the last time."""

    token: ApiToken
    text: str


def make(
    token: ApiToken, author: Author, scope: Scope = EVERYTHING, *, valid_for: timedelta | None
) -> Made:
    """Store a new token; `scope` is the author's, `valid_for` None = until it is revoked.

    Of a form that is sent twice the first text is replaced. Raises TokenNameTakenError,
    TokenReachesOthersError.
    """
    _refuse_reach(token, scope)
    with transaction.atomic():
        # Of two who make one of the same name at once, one is told.
        ExternalSystem.objects.select_for_update().get(pk=token.system_id)
        # Who revokes it meanwhile waits, or is waited for: all of its columns are written.
        tokens = ApiToken.objects.select_for_update(of=("self",))
        known = tokens.filter(system=token.system_id, name=token.name).first()
        if known is not None and not _is_again(known, token, author):
            raise TokenNameTakenError(token.name)
        token = known or token
        token.expires_at = None if valid_for is None else database_now() + valid_for
        made = _made(token, author)
    callers.forget()
    return made


def rotate(
    token: ApiToken, author: Author, *, overlap: timedelta, scope: Scope = EVERYTHING
) -> Made:
    """A successor with the same rights; the old one stays valid for `overlap` at most.

    That of `erp` is `erp.2`.

    An end that was set once is nobody's to put off by changing the text: the successor ends when
    the old one would have ended, and the old one no later. Of a form that is sent twice there is
    one successor, and the first text is replaced.

    Raises TokenOverError, TooManyValidError while its predecessor is valid, too, and
    TokenReachesOthersError: who makes a text knows it.
    """
    with transaction.atomic():
        ExternalSystem.objects.select_for_update().get(pk=token.system_id)
        # Who revokes it meanwhile waits, or is waited for.
        locked = ApiToken.objects.select_for_update(of=("self",)).select_related("system")
        old = locked.get(pk=token.pk)
        _refuse_reach(old, scope)
        family = _family(old.system, _NUMBER.sub("", old.name))
        valid = list(family.select_for_update(of=("self",)).filter(_valid()).order_by("pk"))
        if old.pk not in {one.pk for one in valid}:
            raise TokenOverError(old.name)
        newest = valid[-1]
        if newest.created_at > old.created_at and _is_again(newest, old, author):
            made = _made(newest, author)
        else:
            made = _succeeded(old, valid, family, author)
            # Without an end of its own (NULL) it is the overlap's.
            old.expires_at = Least(F("expires_at"), database_now() + overlap)
            configuration.save(old, author)
    callers.forget()
    return made


def revoke(token: ApiToken, author: Author) -> bool:
    """Nobody gets in with it from now on; False when it was revoked before."""
    with transaction.atomic():
        # Before the token, as the others do: at the end the audit's row needs it in any case.
        ExternalSystem.objects.select_for_update().get(pk=token.system_id)
        old = ApiToken.objects.select_for_update(of=("self",)).get(pk=token.pk)
        if old.revoked_at is not None:
            return False
        old.revoked_at = database_now()
        configuration.save(old, author)
    callers.forget()
    return True


def _refuse_reach(token: ApiToken, scope: Scope) -> None:
    """Posting and asking stay within the token's own system; these two do not."""
    if scope.is_whole or not (token.may_call or token.may_publish):
        return
    if not token.services or not {*token.services} <= {*names_to_limit_to(scope)}:
        raise TokenReachesOthersError


def _succeeded(
    old: ApiToken, valid: Sequence[ApiToken], family: QuerySet[ApiToken], author: Author
) -> Made:
    if len(valid) >= MOST_VALID:
        is_used = valid[-1].last_used_at is not None
        raise TooManyValidError([one.name for one in valid], is_newest_used=is_used)
    base = _NUMBER.sub("", old.name)
    taken = set(family.values_list("name", flat=True))
    number = next(n for n in range(2, len(taken) + 3) if f"{base}.{n}" not in taken)
    same = {column: getattr(old, column) for column in INHERITED}
    return _made(ApiToken(name=f"{base}.{number}", **same), author)


def _is_again(known: ApiToken, asked: ApiToken, author: Author) -> bool:
    """Return whether the same form made `known` a moment ago, so that nobody has seen its text."""
    is_same = all(getattr(known, one) == getattr(asked, one) for one in RIGHTS)
    return is_same and known.created_by == author.actor and is_unseen(known)


def _made(token: ApiToken, author: Author) -> Made:
    """Store a new token, or one that there is with another text."""
    new, is_known = new_token(), token.pk is not None
    token.prefix, token.token_hash = new.prefix, new.token_hash
    if not is_known:
        token.created_at, token.created_by = database_now(), author.actor
    configuration.save(token, author)
    if is_known:
        ApiToken.objects.filter(pk=token.pk).update(token_hash=new.token_hash)
    return Made(ApiToken.objects.select_related("system").get(pk=token.pk), new.text)


def _family(system: ExternalSystem, base: str) -> QuerySet[ApiToken]:
    return ApiToken.objects.filter(system=system, name__regex=rf"^{re.escape(base)}(\.\d+)?$")


def _valid() -> Q:
    unexpired = Q(expires_at__isnull=True) | Q(expires_at__gt=database_now())
    return Q(revoked_at__isnull=True) & unexpired
