"""Rights of people. Every view names the right it needs; pages show what is missing."""

from collections.abc import Callable
from enum import Enum
from functools import wraps
from typing import Concatenate, Final, ParamSpec, TypeVar, cast

from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import AnonymousUser, User
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from console.models import Limit
from integration.selectors.scope import EVERYTHING, Scope

Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer", bound=HttpResponseBase)
View = Callable[Concatenate[HttpRequest, Arguments], Answer]


class Right(Enum):
    """A permission of Django's and what it allows, in words."""

    VIEW = ("integration.view_messageerror", "see queues and failures")
    VIEW_PAYLOAD = ("integration.view_payload", "see payloads, keys and headers")
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
    def missing(self) -> str:
        return f"You do not have the right to {self.words}. Ask an administrator for it."


# What the groups made at installation may do; an administrator can change them.
ROLES: Final = {
    "Viewers": (Right.VIEW,),
    "Operators": (Right.VIEW, Right.OPERATE),
    "Editors": (Right.VIEW, Right.OPERATE, Right.VIEW_PAYLOAD, Right.EDIT_PAYLOAD),
    "Administrators": tuple(Right),
}


def has(user: User | AnonymousUser, right: Right) -> bool:
    return user.has_perm(right.permission)


def scope_of(user: User | AnonymousUser) -> Scope:
    """The scope of this person; the database is asked once a request.

    Superusers are not limited: somebody must be able to mend a wrong limit.
    """
    if user.is_anonymous:
        return Scope(frozenset())
    known: Scope | None = getattr(user, "sluice_scope", None)
    if known is None:
        known = EVERYTHING if user.is_superuser else _limit_of(user)
        user.sluice_scope = known  # type: ignore[attr-defined] # kept with the request's person
    return known


def _limit_of(user: User) -> Scope:
    limit = Limit.objects.filter(person=user).prefetch_related("systems").first()
    return EVERYTHING if limit is None else Scope(frozenset(s.pk for s in limit.systems.all()))


def needs(*rights: Right) -> Callable[[View[Arguments, Answer]], View[Arguments, Answer]]:
    """Let the view be called only by people with all of these rights; others get a 403 page."""

    def guard(view: View[Arguments, Answer]) -> View[Arguments, Answer]:
        @wraps(view)
        def guarded(
            request: HttpRequest, *args: Arguments.args, **kwargs: Arguments.kwargs
        ) -> Answer:
            for right in rights:
                if not has(request.user, right):
                    raise PermissionDenied(right.missing)
            return view(request, *args, **kwargs)

        # Kept by every decorator around it: a test asks each address which rights it needs.
        guarded.rights = rights  # type: ignore[attr-defined]
        return cast("View[Arguments, Answer]", login_required(guarded))

    return guard
