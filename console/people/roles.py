"""Roles: which rights each has, and changes of these, each with its one row of audit."""

from collections.abc import Iterable
from typing import ClassVar, Final

from django.contrib.auth.models import AnonymousUser, Group, Permission, User
from django.db import transaction
from django.db.models import Count, Q, QuerySet

from console.layout.access import Right, has, require
from console.people.accounts import PersonProtectedError, anew, refuse_limited, refuse_taking
from console.people.company import rules
from integration.actions import configuration
from integration.actions.configuration import Author, Facts
from integration.actions.errors import ChangedMeanwhileError
from integration.errors import IntegrationError

KIND: Final = "group"


class RoleUnknownError(IntegrationError):
    """There is no role of this name."""

    code: ClassVar[str] = "ROLE_UNKNOWN"

    def __init__(self, name: str) -> None:
        known = ", ".join(Group.objects.order_by("name").values_list("name", flat=True))
        super().__init__(
            f"There is no role “{name}”, so nothing was changed.",
            next_step=f"Name one of these, with its capitals: {known}."
            if known
            else "Run `manage.py migrate`, which makes the first roles.",
        )


def roles() -> QuerySet[Group]:
    """Every role with its permissions; `people` counts who has it."""
    return _every().annotate(people=Count("user")).order_by("pk")


def role(number: int) -> Group | None:
    return roles().filter(pk=number).first()


def groups_giving(known: Group) -> list[str]:
    """The groups of the company's login that give the role, by the rules there are."""
    return [one.group for one in rules.rules() if one.role_id == known.pk]


def rights_of(known: Group) -> frozenset[Right]:
    """The rights that the role has; what else a project lets it do is not ours to tell."""
    codes = _codes(known)
    return frozenset(right for right in Right if right.permission in codes)


def others_of(known: Group) -> int:
    """How many permissions of Django's the role has besides; no change here touches them."""
    return len(_codes(known) - {right.permission for right in Right})


def give(name: str, right: Right, author: Author) -> bool:
    """Give the role this right, together with a row of audit; False where it has it already.

    For whoever is at the machine: nobody is asked for rights. Raises RoleUnknownError.
    """
    with transaction.atomic():
        known = _every().select_for_update().filter(name=name).first()
        if known is None:
            raise RoleUnknownError(name)
        return _write(known, rights_of(known) | {right}, author)


def change(
    known: Group,
    wanted: frozenset[Right],
    by: User | AnonymousUser,
    reason: str,
    *,
    seen: str,
) -> bool:
    """Let a role have these rights and no others, with a row of audit; False if it has them.

    `seen` is the stamp() of what the change was made from. Raises PermissionDenied for who may not
    manage people; PersonProtectedError for who is limited, for a right that `by` lacks, where a
    right is taken from a role that has others which `by` lacks, and where `by` would lose what is
    taken; ChangedMeanwhileError.
    """
    require(by, Right.PEOPLE)
    with transaction.atomic():
        stored = _locked(known)
        # Somebody else may just have taken rights: two people could lock each other out.
        decider = anew(by)
        require(decider, Right.PEOPLE)
        refuse_limited(decider)
        had = frozenset() if stored is None else rights_of(stored)
        if stored is None or configuration.stamp_of(_facts(had)) != seen:
            raise ChangedMeanwhileError(f"The role {known.name}", stored)
        _refuse_foreign(had ^ wanted, decider)
        if had - wanted:
            refuse_taking(stored, decider)
        is_new = _write(stored, wanted, Author(by.get_username(), reason))
        _refuse_loss(had - wanted, by)
        return is_new


def stamp(known: Group) -> str:
    """Return what a form carries, so that a change made meanwhile is noticed; see `change`."""
    return configuration.stamp_of(_facts(rights_of(known)))


def compared(known: Group, wanted: Iterable[Right]) -> tuple[Facts, Facts]:
    """What is stored of a role, and what is wanted of it."""
    return _facts(rights_of(known)), _facts(wanted)


def _codes(known: Group) -> frozenset[str]:
    given = known.permissions.all()
    return frozenset(f"{one.content_type.app_label}.{one.codename}" for one in given)


def _every() -> QuerySet[Group]:
    return Group.objects.prefetch_related("permissions__content_type")


def _locked(known: Group) -> Group | None:
    """The stored role. Nobody else changes it meanwhile, nor any role that manages people."""
    app, code = Right.PEOPLE.permission.split(".")
    managing = Group.objects.filter(
        permissions__content_type__app_label=app, permissions__codename=code
    )
    wanted = _every().filter(Q(pk=known.pk) | Q(pk__in=managing.values("pk")))
    # In one order, so that nobody waits for somebody who waits for them.
    rows = wanted.order_by("pk").select_for_update(no_key=True)
    return next((one for one in rows if one.pk == known.pk), None)


def _facts(rights: Iterable[Right]) -> Facts:
    given = frozenset(rights)
    return {"rights": [one.word for one in Right if one in given]}


def _write(known: Group, wanted: frozenset[Right], author: Author) -> bool:
    had = rights_of(known)
    known.permissions.add(*_permissions(wanted - had))
    known.permissions.remove(*_permissions(had - wanted))
    after = rights_of(_every().get(pk=known.pk))
    return configuration.record(known, _facts(had), _facts(after), author) is not None


def _permissions(rights: Iterable[Right]) -> QuerySet[Permission]:
    codes = [right.permission.split(".")[1] for right in rights]
    return Permission.objects.filter(content_type__app_label="integration", codename__in=codes)


def _refuse_foreign(changed: Iterable[Right], by: User | AnonymousUser) -> None:
    """Nobody gives or takes what they do not have: they could have others give it to them."""
    lacking = [right for right in Right if right in frozenset(changed) and not has(by, right)]
    if lacking:
        words = "; ".join(right.words for right in lacking)
        raise PersonProtectedError(
            f"You do not have this right yourself, so you cannot give or take it: {words}.",
            next_step="Ask somebody who has it, or a superuser.",
        )


def _refuse_loss(taken: Iterable[Right], by: User | AnonymousUser) -> None:
    """Nobody takes from themselves what they could not give back. Raises PersonProtectedError."""
    after = anew(by)
    lost = [right for right in Right if right in frozenset(taken) and not has(after, right)]
    if lost:
        words = "; ".join(right.words for right in lost)
        raise PersonProtectedError(
            f"This would take a right from yourself, and you could not undo it: {words}.",
            next_step="Ask a superuser, or somebody who has this right by another role.",
        )
