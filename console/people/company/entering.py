"""From what the identity provider tells to an account here: found, made, connected, refused."""

from typing import Any, Final

from django.conf import settings
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction

from console.models import CompanyIdentity
from console.people import accounts, limits, sessions
from console.people.accounts import PersonProtectedError
from console.people.company import rules
from console.people.company.errors import (
    IdentityAccountOffError,
    IdentityNameTakenError,
    IdentityOfAnotherError,
    IdentityWithoutNameError,
    IdentityWithoutRoleError,
)
from console.people.company.told import Told
from integration.actions import configuration
from integration.actions.configuration import Author
from integration.store.sessions import database_now

BY_GROUPS: Final = "By the groups of the company login."


def account_of(told: Told) -> User:
    """The account of this person, with what their groups give as of now.

    One is made at the first login that gives a role. Whoever has no role any more loses what the
    groups had given, and their sessions. Raises the errors of console.people.company.errors.
    """
    known = _identity(told)
    if known is None:
        known = _made(told)
    else:
        rules.apply(known, told.groups, Author(known.person.get_username(), BY_GROUPS))
    # Read again: what the groups give is not in what was read before.
    person = accounts.person(str(known.person_id))
    assert person is not None  # noqa: S101 - an identity goes with its person
    rules.touch(known)
    if not person.is_active:
        raise IdentityAccountOffError(f"The account {person.get_username()} may not log in here.")
    if not _may_anything(person):
        sessions.end(person)
        raise IdentityWithoutRoleError(person.get_username(), told.groups)
    return person


def connect(person: User, told: Told) -> None:
    """Let this person, who is logged in, come in by the company login, too.

    Where the provider has another address than before, and the person is the same there, the
    identity follows it. Raises IdentityOfAnotherError.
    """
    known = _identity(told)
    own = identity_of(person)
    if (known and known.person_id != person.pk) or (own and own.subject != told.subject):
        raise IdentityOfAnotherError
    author = Author(person.get_username(), "Connected with the company login.")
    try:
        with transaction.atomic():
            if known is None:
                known = _moved(own, told, author) if own else _connected(person, told, author)
            rules.apply(known, told.groups, author)
    except IntegrityError as problem:
        # Two connect at once: one of them was first.
        raise IdentityOfAnotherError from problem


def disconnect(person: User, author: Author) -> bool:
    """Let a person no longer come in by the company login; False where they did not.

    The roles that its groups gave are taken away; a limit stays, as one by hand, since whoever has
    roles by hand, too, would widen them. Their sessions end.
    """
    known = identity_of(person)
    if known is None:
        return False
    with transaction.atomic():
        limits.keep_by_hand(accounts.locked(person))
        rules.apply(known, (), author)
        before = {"company login": known.subject}
        known.delete()
        configuration.record(person, before, {"company login": None}, author)
        sessions.end(person)
    return True


def identity_of(person: User) -> CompanyIdentity | None:
    """Whom this person is to the identity provider."""
    known = CompanyIdentity.objects.filter(person=person)
    return known.prefetch_related("roles", "systems").first()


def _identity(told: Told) -> CompanyIdentity | None:
    known = CompanyIdentity.objects.select_related("person")
    return known.filter(issuer=told.issuer, subject=told.subject).first()


def _made(told: Told) -> CompanyIdentity:
    """A new account. Raises what account_of raises."""
    name = _name(told)
    if not rules.given_to(told.groups).roles:
        # Nobody's account: it would only be in the way.
        raise IdentityWithoutRoleError(name, told.groups)
    if accounts.named(name, alike=True) is not None:
        raise IdentityNameTakenError(name)
    author = Author(name, "First company login.")
    try:
        with transaction.atomic():
            person = accounts.make(name, told.email, author)
            known = _new(person, told)
            rules.apply(known, told.groups, author)
    except PersonProtectedError as problem:
        raise IdentityAccountOffError(problem.sentence) from problem
    except IntegrityError as problem:
        # Two first logins at once: the account is there by now.
        raise IdentityNameTakenError(name) from problem
    return known


def _new(person: User, told: Told) -> CompanyIdentity:
    return CompanyIdentity.objects.create(
        person=person, issuer=told.issuer, subject=told.subject, seen_at=database_now()
    )


def _connected(person: User, told: Told, author: Author) -> CompanyIdentity:
    configuration.record(person, {}, {"company login": told.subject}, author)
    return _new(person, told)


def _moved(own: CompanyIdentity, told: Told, author: Author) -> CompanyIdentity:
    """The person is logged in here and there: both have just proved that it is the same one."""
    before = {"company issuer": own.issuer}
    own.issuer = told.issuer
    own.save(update_fields=["issuer"])
    configuration.record(own.person, before, {"company issuer": told.issuer}, author)
    return own


def _name(told: Told) -> str:
    model = accounts.account_model()
    name: str = model.normalize_username(told.name)
    field: Any = model._meta.get_field(model.USERNAME_FIELD)
    try:
        cleaned: str = field.clean(name, None)
    except ValidationError as problem:
        raise IdentityWithoutNameError(settings.SLUICE_OIDC_NAME_CLAIM) from problem
    return cleaned


def _may_anything(person: User) -> bool:
    return person.is_superuser or bool(person.get_all_permissions())
