"""People and what they may do: every change is stored together with its one row of audit."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Final, cast

from django.apps import apps as installed
from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.auth.management import create_permissions
from django.contrib.auth.models import AnonymousUser, Group, Permission, User
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import Q, QuerySet

from console.layout import access
from console.layout.access import ROLES, Right, require, scope_of
from console.people import limits, sessions
from integration.actions import configuration
from integration.actions.configuration import SET_ANEW, Author, Facts
from integration.actions.errors import ChangedMeanwhileError
from integration.actions.shown_once import just_before
from integration.errors import IntegrationError
from integration.models import ConfigurationChange, ExternalSystem
from integration.selectors.scope import Scope

EVERY_SYSTEM: Final = "all"
DJANGOS: Final = "django.contrib.auth.backends.ModelBackend"


class PersonProtectedError(IntegrationError):
    """This change would lock somebody out, or reach above the one who makes it."""

    code: ClassVar[str] = "PERSON_PROTECTED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The new state of an account; `systems` None = not limited, `password` None = unchanged."""

    name: str
    email: str
    roles: tuple[Group, ...]
    systems: tuple[ExternalSystem, ...] | None
    is_active: bool
    password: str | None = None


def people() -> QuerySet[User]:
    """Every account with its roles and limit, by name."""
    return _everybody().order_by(account_model().USERNAME_FIELD)


def person(person_id: str) -> User | None:
    """One account with its roles and limit; None also for what is no key of an account."""
    try:
        key = account_model()._meta.pk.to_python(person_id)
    except ValidationError:
        return None
    return _everybody().filter(pk=key).first()


def named(name: str, *, alike: bool = False) -> User | None:
    """The account of this name; with `alike` also one whose name differs in capitals only."""
    model = account_model()
    how = "__iexact" if alike else ""
    name = model.normalize_username(name)
    return model._default_manager.filter(**{f"{model.USERNAME_FIELD}{how}": name}).first()


def sent_twice(name: str, by: User | AnonymousUser) -> User | None:
    """The account that `by` made of this name a moment ago, if nobody has come in by it yet."""
    known = named(name)
    if known is None or known.last_login is not None:
        return None
    made = ConfigurationChange.objects.filter(
        kind="user", subject=str(known.pk), action="create", actor=by.get_username()
    )
    return known if made.filter(at__gt=just_before()).exists() else None


def login_backend() -> str:
    """The backend of the project that knows who is logged in, where no password was asked for."""
    known = list(settings.AUTHENTICATION_BACKENDS)
    return DJANGOS if DJANGOS in known else str(known[0])


def account_model() -> type[User]:
    """The project's model of accounts, which may be another one than Django's."""
    return get_user_model()


def unasked() -> list[str]:
    """What an account of the project needs and no page here asks for."""
    model = account_model()
    return [name for name in model.REQUIRED_FIELDS if name != model.get_email_field_name()]


def history(person_id: object, most: int = 20) -> list[ConfigurationChange]:
    """The changes of an account, newest first."""
    return list(ConfigurationChange.objects.filter(kind="user", subject=str(person_id))[:most])


def systems_of(scope: Scope) -> list[str]:
    """The names of the external systems within a limit."""
    return list(ExternalSystem.objects.filter(scope.within("pk")).values_list("name", flat=True))


def store(
    known: User | None,
    wanted: Wanted,
    by: User | AnonymousUser,
    reason: str,
    *,
    seen: str | None = None,
) -> User:
    """Store a new or changed account.

    `seen` is the stamp() of what the change was made from. Raises PermissionDenied for who may not
    manage people, PersonProtectedError, ChangedMeanwhileError.
    """
    require(by, Right.PEOPLE)
    with transaction.atomic():
        account = _judged(known, wanted, by)
        before = None if known is None else facts(account)
        if seen is not None and configuration.stamp_of(before) != seen:
            raise ChangedMeanwhileError(account.get_username(), account)
        _write(account, wanted.name, wanted.email)
        account.is_active = wanted.is_active
        if wanted.password is not None:
            account.set_password(wanted.password)
        elif known is None:
            account.set_unusable_password()
        account.save()
        account.groups.set(wanted.roles)
        limits.store(account, wanted.systems)
        after = facts(account)
        if known is not None and wanted.password is not None:
            after["password"] = SET_ANEW
        configuration.record(account, before, after, Author(by.get_username(), reason))
        if wanted.password is not None or not wanted.is_active:
            sessions.end(account)
    return account


def make(name: str, email: str, author: Author, *, is_superuser: bool = False) -> User:
    """Store a new account that no page asked for; it has no password, and no role yet.

    Raises PersonProtectedError where accounts of the project need more than a name.
    """
    if unasked():
        raise PersonProtectedError(
            f"Accounts of this project need more than a name ({', '.join(unasked())}).",
            next_step="Make the account where the project does.",
        )
    account = account_model()()
    _write(account, name, email)
    account.is_superuser = is_superuser
    if is_superuser and "is_staff" in _columns():
        account.is_staff = True
    account.set_unusable_password()
    account.save()
    after = {**facts(account), **({"superuser": True} if is_superuser else {})}
    configuration.record(account, None, after, author)
    return account


def facts(account: User) -> Facts:
    """The facts of an account for the audit; of the password only whether there is one."""
    by_hand, of_groups = limits.by_hand(account), limits.of_groups(account)
    return {
        "name": account.get_username(),
        "email": getattr(account, account.get_email_field_name(), ""),
        "roles": sorted(account.groups.values_list("name", flat=True)),
        "systems": EVERY_SYSTEM if by_hand is None else _names(by_hand),
        **({} if of_groups is None else {"systems of groups": _names(of_groups)}),
        "active": account.is_active,
        "password": configuration.SET if account.has_usable_password() else configuration.NOT_SET,
    }


def stamp(account: User) -> str:
    """Return what a form carries, so that a change made meanwhile is noticed; see `store`."""
    return configuration.stamp_of(facts(account))


def compared(account: User, wanted: Wanted) -> tuple[Facts, Facts]:
    """What is stored of an account, and what is wanted of it."""
    ours = {
        "name": wanted.name,
        "email": wanted.email,
        "roles": sorted(role.name for role in wanted.roles),
        "systems": EVERY_SYSTEM if wanted.systems is None else _names(wanted.systems),
        "active": wanted.is_active,
    }
    theirs = facts(account)
    return {name: theirs[name] for name in ours}, ours


def _everybody() -> QuerySet[User]:
    accounts = account_model()._default_manager.select_related("sluice_limit", "sluice_identity")
    return accounts.prefetch_related("groups", "sluice_limit__systems")


def lockable() -> QuerySet[User]:
    """Accounts that nobody else changes once they are read.

    Rows that refer to them, such as of sessions, can still be added.
    """
    manager = account_model()._default_manager
    # A manager of the project's may join others, which are none of ours.
    return manager.select_for_update(no_key=True, of=("self",))


def locked(known: User | None) -> User:
    """The stored account, which nobody else changes meanwhile; without one, a new account."""
    return account_model()() if known is None else lockable().get(pk=known.pk)


def anew(by: User | AnonymousUser) -> User | AnonymousUser:
    """The person with the rights that they still have, whom nobody changes meanwhile."""
    return access.anew(by, lockable().filter(pk=cast("User", by).pk).first())


def reached(known: User | None, by: User | AnonymousUser) -> tuple[User, User | AnonymousUser]:
    """The account that `by` may change, as it is stored, or a new one; and `by` as they are by now.

    In a transaction: nobody changes either of the two meanwhile, since two people could lock each
    other out. Raises PermissionDenied for who may not manage people; PersonProtectedError for who
    is limited, and where the account has more rights; ChangedMeanwhileError where it is gone.
    """
    asking = cast("User", by)
    keys = [one.pk for one in (known, asking) if one is not None]
    # In one order, so that nobody waits for somebody who waits for them.
    rows = {one.pk: one for one in lockable().filter(pk__in=keys).order_by("pk")}
    # Somebody may just have taken their rights.
    decider = access.anew(by, rows.get(asking.pk))
    require(decider, Right.PEOPLE)
    refuse_limited(decider)
    account = account_model()() if known is None else rows.get(known.pk)
    if account is None:
        raise ChangedMeanwhileError(str(known), None)
    if known is not None:
        refuse_above(account, decider)
    return account, decider


def _judged(known: User | None, wanted: Wanted, by: User | AnonymousUser) -> User:
    """The account that `by` may change so; else as `reached`. Raises what `store` raises."""
    account, decider = reached(known, by)
    if known is not None:
        _refuse_lockout(account, wanted, decider)
    refuse_more(wanted.roles, decider)
    return account


def _write(account: User, name: str, email: str) -> None:
    field = account.get_email_field_name()
    if field in _columns():
        setattr(account, field, email)
    # After it: there are accounts whose name is their address.
    setattr(account, account.USERNAME_FIELD, name)


def _columns() -> set[str]:
    return {field.name for field in account_model()._meta.concrete_fields}


def _names(systems: Iterable[ExternalSystem]) -> list[str]:
    return sorted(system.name for system in systems)


def refuse_limited(by: User | AnonymousUser) -> None:
    """Raises PersonProtectedError for whoever is limited to some external systems."""
    if not scope_of(by).is_whole:
        raise PersonProtectedError(
            "People and their roles are shared by all external systems, and you are limited to "
            "some of them.",
            next_step="Ask an administrator without that limit.",
        )


def refuse_above(known: User, by: User | AnonymousUser) -> None:
    """Raises PersonProtectedError where this person may do what `by` may not."""
    if known.is_superuser and not by.is_superuser:
        raise PersonProtectedError(
            f"{known.get_username()} is a superuser, whom only a superuser may change.",
            next_step="Ask a superuser.",
        )
    if known.pk != by.pk and _rights(Q(group__user=known) | Q(user=known)) - _own(by):
        raise PersonProtectedError(
            f"{known.get_username()} has rights that you do not have.",
            next_step="Ask somebody who has them.",
        )


def refuse_more(roles: Iterable[Group], by: User | AnonymousUser) -> None:
    """Nobody gives what they do not have, themselves included. Raises PersonProtectedError."""
    if _rights(Q(group__in=list(roles))) - _own(by):
        raise PersonProtectedError(
            "These roles include rights that you do not have, so you cannot give them.",
            next_step="Leave such roles out, or ask somebody who has their rights.",
        )


def refuse_taking(role: Group, by: User | AnonymousUser) -> None:
    """Nobody takes rights from a role with others that they lack. Raises PersonProtectedError."""
    if exceeds(role, by):
        raise PersonProtectedError(
            f"The role {role.name} has rights that you do not have, so you cannot take any from "
            "it.",
            next_step="Ask somebody who has them, or a superuser.",
        )


def exceeds(role: Group, by: User | AnonymousUser) -> bool:
    """Return whether the role has rights, Sluice's or a project's own, that `by` does not have."""
    return bool(_rights(Q(group=role)) - _own(by))


def _rights(whose: Q) -> frozenset[str]:
    rights = Permission.objects.filter(whose).values_list("content_type__app_label", "codename")
    return frozenset(f"{app}.{code}" for app, code in rights)


def _own(by: User | AnonymousUser) -> frozenset[str]:
    return _rights(Q()) if by.is_superuser else frozenset(by.get_all_permissions())


def _refuse_lockout(known: User, wanted: Wanted, by: User | AnonymousUser) -> None:
    if known.pk != by.pk or known.is_superuser:
        return
    keeps = Right.PEOPLE.permission in _rights(Q(group__in=wanted.roles))
    if wanted.is_active and keeps and wanted.systems is None:
        return
    raise PersonProtectedError(
        "This would remove your own right to manage people, and you could not undo it.",
        next_step="Let another administrator do it.",
    )


def make_roles(**_: object) -> None:
    """Make the groups that an installation begins with; existing ones stay as they are."""
    # The permissions of `integration` come after its migrations; they may not be there yet.
    create_permissions(installed.get_app_config("integration"), verbosity=0)
    for name, rights in ROLES.items():
        group, is_new = Group.objects.get_or_create(name=name)
        if is_new:
            codes = [right.permission.split(".")[1] for right in rights]
            group.permissions.set(
                Permission.objects.filter(content_type__app_label="integration", codename__in=codes)
            )
