"""Limits of people to external systems: an administrator's, and that of group rules.

Whoever has both knows of the systems that are in both. What comes of them stands in
`Limit.systems`, where every release reads it.
"""

from collections.abc import Iterable

from django.contrib.auth.models import User

from console.models import CompanyIdentity, Limit
from integration.models import ExternalSystem

Systems = tuple[ExternalSystem, ...]


def by_hand(account: User) -> Systems | None:
    """The systems that an administrator limits this person to; None: no limit by hand.

    A limit that is of nobody's rules, and not marked, is one by hand of the release before.
    """
    limit = Limit.objects.filter(person=account).first()
    if limit is None:
        return None
    if limit.is_by_hand:
        return tuple(limit.by_hand.all())
    return tuple(limit.systems.all()) if of_groups(account) is None else None


def of_groups(account: User) -> Systems | None:
    """The systems that group rules limit this person to; None: they do not."""
    identity = CompanyIdentity.objects.filter(person=account, is_limited=True).first()
    return None if identity is None else tuple(identity.systems.all())


def store(account: User, systems: Iterable[ExternalSystem] | None) -> None:
    """Limit an account by hand to these systems; None: only as far as group rules do."""
    of_rules = of_groups(account)
    if systems is None and of_rules is None:
        Limit.objects.filter(person=account).delete()
        return
    chosen = None if systems is None else set(systems)
    limit, _ = Limit.objects.update_or_create(
        person=account, defaults={"is_by_hand": chosen is not None}
    )
    limit.by_hand.set(chosen or ())
    if chosen is not None and of_rules is not None:
        limit.systems.set(chosen.intersection(of_rules))
    else:
        limit.systems.set(chosen or of_rules or ())


def keep_by_hand(account: User) -> None:
    """Make what the person is limited to, by whomever, a limit by hand."""
    limit = Limit.objects.filter(person=account).first()
    if limit is not None:
        store(account, tuple(limit.systems.all()))
