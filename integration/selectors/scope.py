"""The scope of a person: everything, or what belongs to some external systems."""

from dataclasses import dataclass
from typing import Final

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import Q

from integration.models import Queue


@dataclass(frozen=True, slots=True)
class Scope:
    """The external systems someone may know of, by primary key; None = everything.

    What belongs to no system (a queue without one, say) only those know whom nothing limits.
    """

    systems: frozenset[int] | None = None

    @property
    def is_whole(self) -> bool:
        return self.systems is None

    def within(self, path: str) -> Q:
        """The condition on rows whose external system is found at `path`, such as "queue__system".

        An empty condition where nothing is limited: it costs the query nothing.
        """
        return Q() if self.systems is None else Q(**{f"{path}__in": sorted(self.systems)})

    def allows(self, system_id: int | None) -> bool:
        return self.systems is None or system_id in self.systems


EVERYTHING: Final = Scope()


def visible_operations(scope: Scope) -> Q:
    """The condition on operations all of whose messages this person may know of.

    A queue that is gone belongs to no system: its operations are for those whom nothing limits.
    """
    if scope.is_whole:
        return Q()
    if not scope.systems:
        # Django takes a subquery that can find nothing for a condition that nothing meets.
        return Q(queues__contained_by=[])
    queues = Queue.objects.filter(scope.within("system")).values("pk")
    return Q(queues__contained_by=ArraySubquery(queues))


def visible_runs(scope: Scope) -> Q:
    """The condition on bulk runs all of whose queues this person may know of.

    What names no queue concerns everybody: it is for those whom nothing limits.
    """
    if scope.is_whole:
        return Q()
    return Q(queues__len__gt=0) & visible_operations(scope)
