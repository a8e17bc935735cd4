"""Brings to an end what processes that died have left of transactions over several resources."""

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from django.db import DatabaseError

from integration.connections.factories import lookup
from integration.errors import IntegrationError
from integration.models import ConnectionFactory
from integration.store import deployments
from integration.store.sessions import alias, django_connection
from integration.xa.recovery import Recovered, recover

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FactoryRecovered:
    """What became of a factory's branches; `trouble` says why they could not be looked at."""

    name: str
    found: Recovered = field(default_factory=Recovered)
    trouble: str = ""

    @property
    def counts(self) -> Counter[str]:
        return Counter({"failed": 1}) if self.trouble else self.found.counts


def recover_all(should_stop: Callable[[], object] = lambda: None) -> Counter[str]:
    """Recover the branches of every factory; returns how many there were of each kind.

    A factory whose cluster does not answer is "failed", and tried again next time. In a copy of the
    database nothing is done. Raises DatabaseError.
    """
    counts: Counter[str] = Counter()
    for each in recover_each(should_stop):
        counts += each.counts
    return counts


def recover_each(should_stop: Callable[[], object]) -> Iterator[FactoryRecovered]:
    """As `recover_all`, factory by factory."""
    with django_connection().cursor() as cursor:
        if not deployments.may_act(cursor):
            return
    with_a_log = ConnectionFactory.objects.using(alias()).exclude(xa=ConnectionFactory.XaLog.OFF)
    for name in with_a_log.values_list("name", flat=True).order_by("name"):
        if should_stop():
            return
        try:
            yield FactoryRecovered(name, _recovered(name, should_stop))
        except IntegrationError as problem:
            log.warning("The branches of %s cannot be recovered now: %s", name, problem)
            yield FactoryRecovered(name, trouble=f"{problem.code}: {problem}")
        except DatabaseError as problem:
            log.warning("The branches of %s cannot be recovered now: %s", name, problem)
            yield FactoryRecovered(name, trouble=str(problem).strip())


def _recovered(name: str, should_stop: Callable[[], object]) -> Recovered:
    """Raises IntegrationError, DatabaseError."""
    factory = lookup(name)
    # Settings that were changed meanwhile make another one.
    return recover(factory.xa(), should_stop, lambda: lookup(name) is factory)
