"""Rights of people. Every view names the right it needs; pages show what is missing."""

from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import dataclass
from enum import Enum
from functools import cache, wraps
from typing import Concatenate, Final, ParamSpec, TypeVar, cast

from django.conf import settings
from django.contrib.auth import get_backends, get_user_model
from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import (
    AnonymousUser,
    Group,
    Permission,
    PermissionsMixin,
    User,
)
from django.contrib.contenttypes.models import ContentType
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.utils.functional import lazy

from console.models import Limit
from integration.selectors.scope import EVERYTHING, Scope
from integration.store.sessions import fetch_all

Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer", bound=HttpResponseBase)
View = Callable[Concatenate[HttpRequest, Arguments], Answer]


def _login_page() -> str:
    """Where people log in: on the console's own page, unless the project names another."""
    return str(settings.SLUICE_LOGIN_URL or reverse("login"))


# Asked anew for each request, since its prefix is known no sooner.
LOGIN: Final = lazy(_login_page, str)()


class Right(Enum):
    """A permission of Django's and what it allows, in words."""

    VIEW = ("integration.view_messageerror", "see queues and failures")
    VIEW_PAYLOAD = ("integration.view_payload", "see payloads, keys and headers")
    REVEAL = ("integration.reveal_payload", "reveal masked values of a message, with a reason")
    EDIT_PAYLOAD = ("integration.edit_payload", "edit the payload of a held message")
    OPERATE = ("integration.operate", "release, hold, delete, restore, pause and resume")
    CONFIGURE = (
        "integration.change_configuration",
        "set up providers, systems, queues and schedules",
    )
    PEOPLE = ("integration.manage_people", "add people and give them rights")

    def __init__(self, permission: str, words: str) -> None:
        self.permission, self.words = permission, words

    @property
    def word(self) -> str:
        """The name by which a token is limited to it, such as “view_payload”."""
        return self.name.lower()

    @property
    def missing(self) -> str:
        return f"You do not have the right to {self.words}. Ask an administrator for it."


# What the groups made at installation may do; the pages of roles, and `manage.py give_right`,
# change that.
ROLES: Final = {
    "Viewers": (Right.VIEW,),
    "Operators": (Right.VIEW, Right.OPERATE),
    "Editors": (Right.VIEW, Right.OPERATE, Right.VIEW_PAYLOAD, Right.EDIT_PAYLOAD),
    "Administrators": tuple(Right),
}


@dataclass(frozen=True, slots=True)
class Reach:
    """What a person may do, and what they may know of."""

    rights: frozenset[Right]
    scope: Scope


NOWHERE: Final = Reach(frozenset(), Scope(frozenset()))
EVERYWHERE: Final = Reach(frozenset(Right), EVERYTHING)
# What is kept with a person of their rights: ours, and what Django's backend keeps.
KEPT: Final = ("sluice_reach", "_perm_cache", "_user_perm_cache", "_group_perm_cache")


def has(user: User | AnonymousUser, right: Right) -> bool:
    return user.is_active and right in _reach_of(user).rights


def scope_of(user: User | AnonymousUser) -> Scope:
    """The scope of this person.

    Superusers are not limited: somebody must be able to mend a wrong limit.
    """
    return _reach_of(user).scope


def is_limited(user: User | AnonymousUser) -> bool:
    """Return whether this person knows of some external systems only."""
    return not scope_of(user).is_whole


def may_act_for(user: User | AnonymousUser, other: User) -> bool:
    """Return whether all that another account can do this person can do, by this very login.

    `other` is read for this question alone: a token leaves `user` some of their rights only.
    """
    own, theirs = _reach_of(user), _reach_of(other)
    if not other.is_active or theirs.rights - own.rights:
        return False
    if user.is_superuser:
        return True
    mine, asked = own.scope.systems, theirs.scope.systems
    knows = mine is None or (asked is not None and asked <= mine)
    more = other.get_all_permissions() - user.get_all_permissions()
    return knows and not other.is_superuser and not more


def require(user: User | AnonymousUser, *rights: Right) -> None:
    """Let nobody pass who lacks one of these rights. Raises PermissionDenied, which names it."""
    for right in rights:
        if not has(user, right):
            raise PermissionDenied(right.missing)


def narrow(user: User, words: Iterable[str]) -> None:
    """Leave this person, for the rest of the request, only those of their rights."""
    reach = _reach_of(user)
    kept = frozenset(right for right in reach.rights if right.word in set(words))
    user.sluice_reach = Reach(kept, reach.scope)  # type: ignore[attr-defined] # as below


def anew(user: User | AnonymousUser, stored: User | None) -> User | AnonymousUser:
    """This person with what is left by now of the rights that they came with.

    `stored` is their row, read under a lock; without one nobody is left.
    """
    if stored is None or user.is_anonymous:
        return AnonymousUser()
    came_with = [right.word for right in Right if has(user, right)]
    # A copy, not the row: a backend of the project may have put on the person whence rights come.
    person = copy(user)
    person.is_active = user.is_active and stored.is_active
    person.is_superuser = user.is_superuser and stored.is_superuser
    for name in KEPT:
        vars(person).pop(name, None)
    narrow(person, came_with)
    return person


def _reach_of(user: User | AnonymousUser) -> Reach:
    """The reach of this person; the database is asked once a request."""
    if user.is_anonymous:
        return NOWHERE
    known: Reach | None = getattr(user, "sluice_reach", None)
    if known is None:
        known = EVERYWHERE if user.is_superuser else _stored_reach(user)
        user.sluice_reach = known  # type: ignore[attr-defined] # kept with the request's person
    return known


def _stored_reach(user: User) -> Reach:
    """The rights by Django's backends, whatever the users' model, and the limit."""
    rows = fetch_all(_asked_of_people(), {"person": user.pk})
    permissions = {permission for permission, _, _ in rows} if user.is_active else set()
    if not _only_djangos_backend():
        permissions = user.get_all_permissions()
    rights = frozenset(right for right in Right if right.permission in permissions)
    systems = [system for _, is_limit, system in rows if is_limit]
    return Reach(rights, Scope(frozenset(filter(None, systems))) if systems else EVERYTHING)


def _only_djangos_backend() -> bool:
    """Return whether permissions are those of Django's tables, and nobody else gives any."""
    by_backends = get_user_model().get_all_permissions is PermissionsMixin.get_all_permissions
    return by_backends and {type(backend) for backend in get_backends()} == {ModelBackend}


@cache
def _asked_of_people() -> str:
    """The statement for a person's permissions, and for each system of their limit.

    Of a limit to none there is a row without a system. Django's backend puts together a statement
    for the person's own permissions and one for their groups' at each request; with one for the
    limit that took a tenth of the time of a page.
    """
    person, limit = get_user_model()._meta, Limit._meta
    own, groups = person.get_field("user_permissions"), person.get_field("groups")
    granted, systems = Group._meta.get_field("permissions"), limit.get_field("systems")
    return f"""
        SELECT t.app_label || '.' || p.codename, FALSE, NULL
        FROM {Permission._meta.db_table} p
        JOIN {ContentType._meta.db_table} t ON t.id = p.content_type_id
        WHERE p.id IN (
            SELECT {own.m2m_reverse_name()} FROM {own.m2m_db_table()}
            WHERE {own.m2m_column_name()} = %(person)s
            UNION ALL
            SELECT g.{granted.m2m_reverse_name()} FROM {granted.m2m_db_table()} g
            JOIN {groups.m2m_db_table()} m
              ON m.{groups.m2m_reverse_name()} = g.{granted.m2m_column_name()}
            WHERE m.{groups.m2m_column_name()} = %(person)s)
        UNION ALL
        SELECT NULL, TRUE, s.{systems.m2m_reverse_name()}
        FROM {limit.db_table} l
        LEFT JOIN {systems.m2m_db_table()} s ON s.{systems.m2m_column_name()} = l.person_id
        WHERE l.person_id = %(person)s"""


def needs(*rights: Right) -> Callable[[View[Arguments, Answer]], View[Arguments, Answer]]:
    """Let the view be called only by people with all of these rights; others get a 403 page."""

    def guard(view: View[Arguments, Answer]) -> View[Arguments, Answer]:
        @wraps(view)
        def guarded(
            request: HttpRequest, *args: Arguments.args, **kwargs: Arguments.kwargs
        ) -> Answer:
            require(request.user, *rights)
            return view(request, *args, **kwargs)

        # Kept by every decorator around it: a test asks each address which rights it needs.
        guarded.rights = rights  # type: ignore[attr-defined]
        return cast("View[Arguments, Answer]", login_required(guarded, login_url=LOGIN))

    return guard
