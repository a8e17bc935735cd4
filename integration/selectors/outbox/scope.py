"""Which rows of the outbox a person may know of: those for topics of queues they may know of."""

from collections.abc import Iterable

from django.db.models import Q

from integration.models import OutboxRow, Queue
from integration.selectors.scope import Scope


def within(scope: Scope) -> Q:
    """The condition on outbox rows and their changes, in one query for a limited person."""
    if scope.is_whole:
        return Q()
    known = Queue.objects.filter(scope.within("system")).values_list("provider", "topic")
    either = Q(pk=None)
    for provider, topic in known:
        either |= Q(provider=provider, topic=topic)
    return either


def known_of(ids: Iterable[int], scope: Scope) -> set[int]:
    """Those of the rows that the person may know of; those that are gone stay named."""
    wanted = set(ids)
    if scope.is_whole:
        return wanted
    hidden = OutboxRow.objects.filter(pk__in=wanted).exclude(within(scope))
    return wanted - set(hidden.values_list("pk", flat=True))
