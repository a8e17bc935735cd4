"""Rules by which groups of the identity provider give roles and systems; and what they gave."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from django.contrib.auth.models import AnonymousUser, Group, User
from django.db import transaction

from console.models import CompanyIdentity, GroupRule
from console.people import accounts, limits
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

    `seen` is the stamp() of what the change was made from. Raises PersonProtectedError where it
    would give, or take, what `by` does not have; ChangedMeanwhileError.
    """
    accounts.refuse_more([wanted.role, *([known.role] if known else [])], by)
    author = Author(by.get_username(), reason)
    with transaction.atomic():
        before = None if known is None else _locked_facts(known, seen)
        wanted.save()
        wanted.systems.set(systems if wanted.is_limited else ())
        configuration.record(wanted, before, facts(wanted), author)
        _apply_to_all(author)


def delete(known: GroupRule, by: User | AnonymousUser, reason: str) -> None:
    """Remove a rule and what it gave. Raises PersonProtectedError as `store` does."""
    accounts.refuse_more([known.role], by)
    author = Author(by.get_username(), reason)
    with transaction.atomic():
        before, number = facts(known), known.pk
        known.delete()
        known.pk = number
        configuration.record(known, before, None, author)
        _apply_to_all(author)


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


def _locked_facts(known: GroupRule, seen: str | None) -> Facts:
    """The facts of a rule that nobody changes from now on. Raises ChangedMeanwhileError."""
    stored = GroupRule.objects.select_for_update().filter(pk=known.pk).first()
    before = None if stored is None else facts(stored)
    if before is None or (seen is not None and configuration.stamp_of(before) != seen):
        raise ChangedMeanwhileError(f"The rule for {known.group}", stored)
    return before


def touch(identity: CompanyIdentity) -> None:
    """The person has just come in by it."""
    CompanyIdentity.objects.filter(pk=identity.pk).update(seen_at=database_now())


def _apply_to_all(author: Author) -> None:
    for known in CompanyIdentity.objects.select_related("person").order_by("person_id"):
        account = accounts.locked(known.person)
        # A login may just have told of other groups, or somebody was disconnected.
        identity = CompanyIdentity.objects.filter(pk=known.pk).first()
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
