"""Personal tokens: made, revoked and known again; each change is stored with its row of audit."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, NamedTuple

from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import BooleanField, Exists, ExpressionWrapper, OuterRef, Q, QuerySet, Value

from console.layout.access import Right, has, narrow
from console.models import CompanyIdentity, PersonalToken
from integration.actions import configuration
from integration.actions.configuration import Author
from integration.actions.shown_once import is_unseen
from integration.errors import IntegrationError
from integration.http_api.errors import HttpApiError
from integration.http_api.tokens import hash_of, is_token, new_token, prefix_of
from integration.store.sessions import database_now, execute

# Nobody manages people by a token: whoever has one could give themselves more than it allows.
# And a program has no reason to give: it sees what is masked as it is shown.
GRANTABLE: Final = tuple(r for r in Right if r not in {Right.PEOPLE, Right.REVEAL})
# Compared with where no token has that prefix, so that the answer takes as long.
_NOBODY: Final = hash_of("")
_TOUCH: Final = (
    "UPDATE console_personaltoken SET last_used_at = clock_timestamp() WHERE id = %s AND "
    "(last_used_at IS NULL OR last_used_at < clock_timestamp() - interval '1 minute')"
)


class PersonalTokenTakenError(IntegrationError):
    """The person has a token of that name, valid or not."""

    code = "PERSONAL_TOKEN_TAKEN"

    def __init__(self, name: str) -> None:
        super().__init__(
            f"You have or had a token named {name} already.", next_step="Choose another name."
        )


class NoPersonalTokenError(HttpApiError):
    """No usable personal token came with the request."""

    code = "NO_PERSONAL_TOKEN"
    status = 401
    says = "The request carries no valid personal token."
    advice = (
        "Send one as “Authorization: Bearer …”. Make it under “My account” in the console; tokens "
        "of external systems and tokens in the address are not taken."
    )


class PersonalTokenOverError(HttpApiError):
    """The token was the right one, until it expired, was revoked, or its person was locked out."""

    code = "PERSONAL_TOKEN_OVER"
    status = 401
    says = "The token {over}."
    advice = "Make a new one under “My account” in the console."


class PersonalTokenAsleepError(HttpApiError):
    """The token is right, but the identity provider has not told of its person for too long."""

    code = "PERSONAL_TOKEN_ASLEEP"
    status = 401
    says = "The token sleeps: its person has not come in by the company login for {days} days."
    advice = "Come in by the company login once; then it works again."


class Made(NamedTuple):
    """A token with its text, which is known here for the last time."""

    token: PersonalToken
    text: str


@dataclass(frozen=True, slots=True)
class TokenRow:
    """A token as its page shows it; `state` is valid, expired or revoked."""

    token: PersonalToken
    state: str
    may: tuple[str, ...]

    @property
    def is_valid(self) -> bool:
        return self.state == "valid"


def tokens_of(person: User) -> list[TokenRow]:
    """Every token of a person, valid ones first."""
    rows = [_row(token) for token in _with_expiry().filter(person=person).order_by("-created_at")]
    return sorted(rows, key=lambda row: not row.is_valid)


def grantable(person: User) -> list[Right]:
    """The rights that a token of this person can have."""
    return [right for right in GRANTABLE if has(person, right)]


def make(
    person: User, name: str, rights: Iterable[Right], *, valid_for: timedelta, reason: str = ""
) -> Made:
    """Store a new token. Raises PersonalTokenTakenError.

    A right that the person does not have is worth nothing in a token, now and later.
    """
    new, words = new_token(), sorted(right.word for right in rights)
    with transaction.atomic():
        # Of two that are made under one name at once, one is told.
        get_user_model()._default_manager.select_for_update().get(pk=person.pk)
        # Who revokes it meanwhile waits, or is waited for: all of its columns are written.
        tokens = PersonalToken.objects.select_for_update(of=("self",))
        token = tokens.filter(person=person, name=name).first()
        if token is not None and not (token.rights == words and is_unseen(token)):
            raise PersonalTokenTakenError(name)
        # Of a form that is sent twice the first text is replaced: nobody has seen it.
        token = token or PersonalToken(
            person=person, name=name, rights=words, created_at=database_now()
        )
        token.prefix, token.token_hash = new.prefix, new.token_hash
        token.expires_at = database_now() + valid_for
        configuration.save(token, Author(person.get_username(), reason))
        PersonalToken.objects.filter(pk=token.pk).update(token_hash=new.token_hash)
    return Made(PersonalToken.objects.get(pk=token.pk), new.text)


def token_of(person: User, token_id: int) -> PersonalToken | None:
    """One token of this person; nobody else's."""
    return PersonalToken.objects.filter(person=person, pk=token_id).first()


def revoke(token: PersonalToken, author: Author) -> bool:
    """Nobody gets in with it from now on; False when it was revoked before."""
    with transaction.atomic():
        old = PersonalToken.objects.select_for_update(of=("self",)).get(pk=token.pk)
        if old.revoked_at is not None:
            return False
        old.revoked_at = database_now()
        configuration.save(old, author)
    return True


def revoke_all(person: User, author: Author) -> int:
    """Revoke every token of a person that is not over; the number of those that were valid."""
    return sum(revoke(row.token, author) for row in tokens_of(person) if row.is_valid)


def person_of(text: str) -> User:
    """The person of a token, with those of their rights that it allows.

    Raises NoPersonalTokenError, PersonalTokenOverError, PersonalTokenAsleepError.
    """
    prefix = prefix_of(text)
    token: Any = None if prefix is None else _with_expiry().filter(prefix=prefix).first()
    if not is_token(text, _NOBODY if token is None else token.token_hash) or token is None:
        raise NoPersonalTokenError
    if over := _over(token):
        raise PersonalTokenOverError(over=over)
    if token.is_asleep:
        raise PersonalTokenAsleepError(days=settings.SLUICE_OIDC_TOKEN_DAYS)
    execute(_TOUCH, [token.pk])
    person: User = token.person
    narrow(person, token.rights)
    return person


def _over(token: Any) -> str:
    if token.revoked_at is not None:
        return "was revoked"
    if token.is_expired:
        return "has expired"
    return "" if token.person.is_active else "belongs to somebody who may not log in any more"


def _with_expiry() -> QuerySet[PersonalToken]:
    is_over = ExpressionWrapper(Q(expires_at__lte=database_now()), output_field=BooleanField())
    tokens = PersonalToken.objects.select_related("person")
    return tokens.annotate(is_expired=is_over, is_asleep=_is_asleep())


def _is_asleep() -> Exists | Value:
    """Whoever has left the company comes in no more, and nobody may think of their tokens."""
    days = settings.SLUICE_OIDC_TOKEN_DAYS
    if not days:
        return Value(value=False)
    longest = database_now() - timedelta(days=days)
    return Exists(CompanyIdentity.objects.filter(person=OuterRef("person"), seen_at__lt=longest))


def _row(token: Any) -> TokenRow:
    state = "revoked" if token.revoked_at else "expired" if token.is_expired else "valid"
    may = tuple(right.words for right in Right if right.word in token.rights)
    return TokenRow(token, state, may)
