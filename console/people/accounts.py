"""People and what they may do: every change is stored together with its one row of audit."""

from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar, Final

from django.contrib.auth.models import AnonymousUser, Group, Permission, User
from django.db import transaction
from django.db.models import Q, QuerySet

from console.layout.access import Right, scope_of
from console.models import Limit
from integration.actions import configuration
from integration.actions.configuration import SET_ANEW, Author, Facts
from integration.errors import IntegrationError
from integration.models import ConfigurationChange, ExternalSystem
from integration.selectors.scope import Scope

EVERY_SYSTEM: Final = "all"


class PersonProtectedError(IntegrationError):
    """This change would lock somebody out, or reach above the one who makes it."""

    code: ClassVar[str] = "PERSON_PROTECTED"


@dataclass(frozen=True, slots=True)
class PersonRow:
    """One line of the list of people."""

    id: int
    name: str
    email: str
    roles: tuple[str, ...]
    systems: tuple[str, ...] | None
    is_active: bool
    is_superuser: bool
    last_login: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What an account is to be; `systems` None = not limited, `password` None = as it is."""

    name: str
    email: str
    roles: tuple[Group, ...]
    systems: tuple[ExternalSystem, ...] | None
    is_active: bool
    password: str | None = None


def people() -> list[PersonRow]:
    """Every account, by name, in four queries however many there are."""
    return [_row(person) for person in _everybody().order_by("username")]


def person(person_id: int) -> User | None:
    """One account with its roles and limit."""
    return _everybody().filter(pk=person_id).first()


def history(person_id: int, most: int = 20) -> list[ConfigurationChange]:
    """What was changed about an account, newest first."""
    found = ConfigurationChange.objects.filter(kind="user", subject=str(person_id))
    return list(found[:most])


def systems_of(scope: Scope) -> list[str]:
    """The names of the external systems within a limit."""
    found = ExternalSystem.objects.filter(scope.within("pk"))
    return list(found.values_list("name", flat=True))


def store(found: User | None, wanted: Wanted, by: User | AnonymousUser, reason: str) -> User:
    """Store a new or changed account. Raises PersonProtectedError."""
    if found is not None:
        _refuse_above(found, by)
        _refuse_lockout(found, wanted, by)
    _refuse_more(wanted, by)
    with transaction.atomic():
        stored = None
        if found is not None:
            stored = User.objects.select_for_update().get(pk=found.pk)
        before = None if stored is None else facts(stored)
        account = stored or User()
        account.username, account.email = wanted.name, wanted.email
        account.is_active = wanted.is_active
        if wanted.password is not None:
            account.set_password(wanted.password)
        elif stored is None:
            account.set_unusable_password()
        account.save()
        account.groups.set(wanted.roles)
        _limit(account, wanted.systems)
        after = facts(account)
        if stored is not None and wanted.password is not None:
            after["password"] = SET_ANEW
        configuration.record(account, before, after, Author(by.get_username(), reason))
    return account


def facts(account: User) -> Facts:
    """What the audit keeps of an account; of the password only whether there is one."""
    limit = Limit.objects.filter(person=account).first()
    systems = None if limit is None else sorted(limit.systems.values_list("name", flat=True))
    return {
        "name": account.username,
        "email": account.email,
        "roles": sorted(account.groups.values_list("name", flat=True)),
        "systems": EVERY_SYSTEM if systems is None else systems,
        "active": account.is_active,
        "password": configuration.SET if account.has_usable_password() else configuration.NOT_SET,
    }


def _everybody() -> QuerySet[User]:
    found = User.objects.select_related("sluice_limit")
    return found.prefetch_related("groups", "sluice_limit__systems")


def _row(account: User) -> PersonRow:
    limit: Limit | None = getattr(account, "sluice_limit", None)
    return PersonRow(
        id=account.pk,
        name=account.username,
        email=account.email,
        roles=tuple(group.name for group in account.groups.all()),
        systems=None if limit is None else tuple(str(one) for one in limit.systems.all()),
        is_active=account.is_active,
        is_superuser=account.is_superuser,
        last_login=account.last_login,
    )


def _limit(account: User, systems: tuple[ExternalSystem, ...] | None) -> None:
    if systems is None:
        Limit.objects.filter(person=account).delete()
        return
    limit, _ = Limit.objects.get_or_create(person=account)
    limit.systems.set(systems)


def _refuse_above(found: User, by: User | AnonymousUser) -> None:
    if found.is_superuser and not by.is_superuser:
        raise PersonProtectedError(
            f"{found.get_username()} is a superuser, whom only a superuser may change.",
            next_step="Ask a superuser.",
        )
    if found.pk != by.pk and _rights(Q(group__user=found) | Q(user=found)) - _own(by):
        raise PersonProtectedError(
            f"{found.get_username()} has rights that you do not have.",
            next_step="Ask somebody who has them.",
        )


def _refuse_more(wanted: Wanted, by: User | AnonymousUser) -> None:
    """Nobody gives what they do not have, themselves included."""
    if _rights(Q(group__in=wanted.roles)) - _own(by):
        raise PersonProtectedError(
            "These roles hold rights that you do not have, so you cannot give them.",
            next_step="Leave such roles out, or ask somebody who has their rights.",
        )


def _rights(whose: Q) -> frozenset[str]:
    found = Permission.objects.filter(whose).values_list("content_type__app_label", "codename")
    return frozenset(f"{app}.{code}" for app, code in found)


def _own(by: User | AnonymousUser) -> frozenset[str]:
    return _rights(Q()) if by.is_superuser else frozenset(by.get_all_permissions())


def _refuse_lockout(found: User, wanted: Wanted, by: User | AnonymousUser) -> None:
    if found.pk != by.pk or found.is_superuser:
        return
    code = Right.PEOPLE.permission.split(".")[1]
    keeps = any(role.permissions.filter(codename=code).exists() for role in wanted.roles)
    if wanted.is_active and keeps and wanted.systems is None and scope_of(by).is_whole:
        return
    raise PersonProtectedError(
        "This would take from you the right to manage people, and you could not undo it.",
        next_step="Let another administrator do it.",
    )
