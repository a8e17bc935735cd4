"""Rules by which groups of the identity provider give roles and systems; and what they gave."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from django.contrib.auth.models import AnonymousUser, Group, User
from django.db import transaction
from django.db.models import Q

from console.layout.access import Right, anew, has, require, scope_of
from console.models import CompanyIdentity, GroupRule
from console.people import accounts, limits
from console.people.accounts import PersonProtectedError
from integration.actions import configuration
from integration.actions.configuration import Author, Facts
from integration.actions.errors import ChangedMeanwhileError
from integration.models import ExternalSystem
from integration.store.sessions import database_now


class Given(NamedTuple):
    """What the rules give; `systems` None = not limited."""

    roles: frozenset[Group]
    systems: tuple[ExternalSystem, ...] | None


def rules() -> list[GroupRule]:
    """Every rule, by group."""
    return list(GroupRule.objects.select_related("role").prefetch_related("systems"))


def rule(number: int) -> GroupRule | None:
    return GroupRule.objects.filter(pk=number).first()


def told_groups() -> list[str]:
    """The groups that people had at their last logins, for those who write rules."""
    told = CompanyIdentity.objects.values_list("groups", flat=True)
    return sorted({group for groups in told for group in groups})


def given_to(groups: Iterable[str]) -> Given:
    """What the rules give to somebody in these groups.

    A limit counts for the whole person: where one rule that applies is limited, the person is
    limited to the systems of all such rules. Else a wide role would widen a narrow one.
    """
    names = set(groups)
    applying = [one for one in rules() if one.group in names]
    limited = [one for one in applying if one.is_limited]
    systems = {system for one in limited for system in one.systems.all()}
    return Given(frozenset(one.role for one in applying), tuple(systems) if limited else None)


def apply(identity: CompanyIdentity, groups: Sequence[str], author: Author) -> None:
    """Give the person what the rules give for these groups, and take what they no longer do.

    Roles that an administrator gave by hand stay, and so does a limit. With one row of audit, if
    anything changed.
    """
    with transaction.atomic():
        account = accounts.locked(identity.person)
        # Before the lock was had, somebody else may have applied other groups or rules.
        identity.refresh_from_db()
        _give(account, identity, groups, author)


def store(
    known: GroupRule | None,
    wanted: GroupRule,
    systems: Sequence[ExternalSystem],
    by: User | AnonymousUser,
    reason: str,
    *,
    seen: str | None = None,
) -> None:
    """Store a new or changed rule, and apply it to everybody who has come by the company login.

    `seen` is the stamp() of what the change was made from. Raises PermissionDenied for who may not
    manage people; PersonProtectedError for who is limited, where it would give, or take, what `by`
    does not have, and where `by` could manage people no longer; ChangedMeanwhileError.
    """
    require(by, Right.PEOPLE)
    author = Author(by.get_username(), reason)
    with transaction.atomic():
        stored = _locked(known)
        people, decider = _judged(by)
        accounts.refuse_more([wanted.role, *([stored.role] if stored else [])], decider)
        before = None if known is None else _unchanged(known, stored, seen)
        wanted.save()
        wanted.systems.set(systems if wanted.is_limited else ())
        configuration.record(wanted, before, facts(wanted), author)
        _apply_to(people, author)
        _refuse_loss(by)


def delete(known: GroupRule, by: User | AnonymousUser, reason: str) -> bool:
    """Remove a rule and what it gave; False where it is gone already. Raises what `store` does."""
    require(by, Right.PEOPLE)
    author = Author(by.get_username(), reason)
    with transaction.atomic():
        stored = _locked(known)
        people, decider = _judged(by)
        if stored is None:
            return False
        accounts.refuse_more([stored.role], decider)
        before = facts(stored)
        stored.delete()
        stored.pk = known.pk
        configuration.record(stored, before, None, author)
        _apply_to(people, author)
        _refuse_loss(by)
    return True


def stamp(known: GroupRule) -> str:
    """Return what a form carries, so that a change made meanwhile is noticed; see `store`."""
    return configuration.stamp_of(facts(known))


def compared(stored: GroupRule, wanted: GroupRule, systems: Sequence[Any]) -> tuple[Facts, Facts]:
    """What is stored of a rule, and what is wanted of it."""
    return facts(stored), _facts(wanted, systems)


def facts(known: GroupRule) -> Facts:
    """The facts of a rule for the audit."""
    stored: Any = GroupRule.objects.get(pk=known.pk)
    return _facts(stored, stored.systems.all())


def _facts(rule_: GroupRule, systems: Iterable[ExternalSystem]) -> Facts:
    names = sorted(system.name for system in systems)
    return {
        "group": rule_.group,
        "role": rule_.role.name,
        "systems": names if rule_.is_limited else accounts.EVERY_SYSTEM,
    }


def _locked(known: GroupRule | None) -> GroupRule | None:
    """The stored rule. Nobody else changes it meanwhile, nor any other rule."""
    # In one order, so that nobody waits for somebody who waits for them; and before any person.
    rows = list(GroupRule.objects.order_by("pk").select_for_update())
    return next((one for one in rows if known is not None and one.pk == known.pk), None)


def _judged(by: User | AnonymousUser) -> tuple[list[User], User | AnonymousUser]:
    """Whom the rules are for, and `by` with the rights that they still have.

    Nobody changes any of them meanwhile: two people could lock each other out. Raises
    PermissionDenied, PersonProtectedError.
    """
    known = Q(pk__in=CompanyIdentity.objects.values("person"))
    rows = list(accounts.lockable().filter(known | Q(pk=by.pk)).order_by("pk"))
    decider = anew(by, next((one for one in rows if one.pk == by.pk), None))
    require(decider, Right.PEOPLE)
    accounts.refuse_limited(decider)
    return rows, decider


def _refuse_loss(by: User | AnonymousUser) -> None:
    """Nobody takes from themselves what they could not give back. Raises PersonProtectedError."""
    after = accounts.anew(by)
    if not has(after, Right.PEOPLE) or not scope_of(after).is_whole:
        raise PersonProtectedError(
            "This would take your own right to manage people, or limit you to some external "
            "systems, and you could not undo it.",
            next_step="Ask a superuser, or somebody who manages people by another role.",
        )


def _unchanged(known: GroupRule, stored: GroupRule | None, seen: str | None) -> Facts:
    """The facts of the stored rule, which is locked. Raises ChangedMeanwhileError."""
    before = None if stored is None else facts(stored)
    if before is None or (seen is not None and configuration.stamp_of(before) != seen):
        raise ChangedMeanwhileError(f"The rule for {known.group}", stored)
    return before


def touch(identity: CompanyIdentity) -> None:
    """The person has just come in by it."""
    CompanyIdentity.objects.filter(pk=identity.pk).update(seen_at=database_now())


def _apply_to(people: Iterable[User], author: Author) -> None:
    """Apply the rules to these people, who are locked: to lock more now could wait for ever."""
    for person in people:
        account = accounts.locked(person)
        identity = CompanyIdentity.objects.filter(person=account).first()
        if identity is not None:
            _give(account, identity, identity.groups, author)


def _give(account: User, identity: CompanyIdentity, groups: Sequence[str], author: Author) -> None:
    """What `apply` says, for an account that is locked and an identity read under that lock."""
    before = accounts.facts(account)
    given = given_to(groups)
    known, mine = set(identity.roles.all()), set(account.groups.all())
    account.groups.remove(*(known - given.roles))
    account.groups.add(*(given.roles - mine))
    identity.roles.set((known & given.roles) | (given.roles - mine))
    by_hand = limits.by_hand(account)
    identity.systems.set(given.systems or ())
    identity.is_limited = given.systems is not None
    # All of them: the next change of a rule judges by what is kept here.
    identity.groups = list(groups)
    identity.save(update_fields=["is_limited", "groups"])
    limits.store(account, by_hand)
    configuration.record(account, before, accounts.facts(account), author)
