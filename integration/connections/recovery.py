"""Brings to an end what processes that died have left of transactions over several resources."""

import logging
from collections import Counter
from collections.abc import Callable

from django.db import DatabaseError

from integration.connections.factories import lookup
from integration.errors import IntegrationError
from integration.models import ConnectionFactory
from integration.store.sessions import alias
from integration.xa.recovery import recover

log = logging.getLogger(__name__)


def recover_all(should_stop: Callable[[], object] = lambda: None) -> Counter[str]:
    """Recover the branches of every factory; returns how many there were of each kind.

    A factory whose cluster does not answer is "failed", and tried again next time.
    """
    counts: Counter[str] = Counter()
    with_a_log = ConnectionFactory.objects.using(alias()).exclude(xa=ConnectionFactory.XaLog.OFF)
    for name in with_a_log.values_list("name", flat=True).order_by("name"):
        if should_stop():
            break
        try:
            counts += recover(lookup(name).xa(), should_stop)
        except (IntegrationError, DatabaseError) as problem:
            counts["failed"] += 1
            log.warning("The branches of %s cannot be recovered now: %s", name, problem)
    return counts
