"""Two-phase commits of a run with their real publishers, and the settling of what was left."""

import logging
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

from django.conf import settings
from django.db import DatabaseError, connections

from integration.delivery.ports import QueueGoneError
from integration.delivery.relay.ports import Publisher
from integration.delivery.steps import Observer
from integration.delivery.two_phase import TwoPhase, decision_of
from integration.errors import IntegrationError
from integration.kafka.client import connection
from integration.kafka.publisher import KafkaPublisher
from integration.models import Provider, QueuePartition
from integration.models.two_phase import other_databases
from integration.policy.branches import Branch, Decision
from integration.store import branches, deployments, locks, second_database
from integration.store.sessions import Session, alias, django_connection, raw_connection

# Most of the time Kafka is waited for.
AT_ONCE: Final = 8

log = logging.getLogger(__name__)

Open = Callable[[int, int], Publisher]


def transactional_id(provider_id: int, queue_id: int, partition: int) -> str:
    """Fixed for a partition's life, as a later owner shuts an earlier one out by it.

    Begins as those of the relay do, so that the same right covers it.
    """
    return f"sluice.{settings.SLUICE_DEPLOYMENT}.{provider_id}.queue.{queue_id}.{partition}"


def two_phase_of(queue_id: int, observer: Observer) -> TwoPhase:
    """The two-phase commits of one run of the queue. Connects when there is something to commit."""
    return TwoPhase(partial(publisher_of, queue_id), observer)


def publisher_of(queue_id: int, partition: int) -> Publisher:
    """The publisher of a partition. Raises QueueGoneError, ProviderUnusableError."""
    provider = Provider.objects.using(alias()).filter(queues=queue_id).first()
    if provider is None:
        raise QueueGoneError(str(queue_id))
    own = transactional_id(provider.pk, queue_id, partition)
    return KafkaPublisher(connection(provider), own)


def settle_left(
    session: Session, partitions: Sequence[int], open_publisher: Open = publisher_of
) -> Collection[int]:
    """As store.branches.settle_left; where Kafka does not tell, the partition stays in doubt."""

    def decide(branch: Branch) -> Decision:
        try:
            told = decision_of(branch, open_publisher(branch.queue, branch.partition))
            decision = second_database.settle(branch, told)
        except (IntegrationError, DatabaseError):
            log.exception("The branch %s stays in doubt", branch)
            return Decision.UNKNOWN
        log.warning("The branch %s was left prepared: %s", branch, decision)
        return decision

    return branches.settle_left(session, partitions, decide)


def settle_all() -> int:
    """Settle all that no run works on, also of queues that are paused; return what is in doubt.

    Partitions that somebody holds are left to their owners, and nothing is done in a copy of the
    database. Raises psycopg.Error, DatabaseError.
    """
    with django_connection().cursor() as cursor:
        if not deployments.may_act(cursor):
            return 0
    roll_back_halves()
    left = branches.left()
    if not left:
        return 0
    places = {(one.branch.queue, one.branch.partition) for one in left}
    rows = QueuePartition.objects.using(alias()).filter(queue__in={queue for queue, _ in places})
    known = rows.values_list("pk", "queue", "partition")
    ids = [pk for pk, queue, partition in known if (queue, partition) in places]
    connections[alias()].close()
    with ThreadPoolExecutor(min(AT_ONCE, len(ids) or 1)) as threads:
        list(threads.map(_settle_free, ids))
    return len(branches.left())


def roll_back_halves() -> None:
    """Roll back what is prepared in a second database alone. Raises DatabaseError.

    That is left where its session ended as it was being prepared. The engine's is prepared before
    and finished after: where it is missing now, nothing was decided.
    """
    for name in other_databases():
        try:
            if there := second_database.left(name):
                here = {str(one.branch) for one in branches.left()}
                second_database.roll_back(name, [one for one in there if str(one) not in here])
        except second_database.SecondDatabaseDownError:
            log.exception("What is prepared in %s is not known", name)


def _settle_free(partition: int) -> None:
    """Settle what is left of a partition (id), unless somebody holds it."""
    try:
        with raw_connection("sluice-branches") as session:
            session.execute(f"SELECT {locks.SESSION_HAS_NO_LEASE}")
            if locks.take(session, [locks.LockClass.PARTITION, partition]):
                settle_left(session, [partition])
                # At once: the server notices the session's end a moment later.
                session.execute(locks.RELEASE, [locks.LockClass.PARTITION, partition])
    finally:
        connections[alias()].close()
