"""Builds what a relay works with: the only place that knows the real publisher and tables."""

from collections.abc import Callable
from functools import partial

from django.conf import settings
from django.db import connections

from integration.delivery.garbage_collection import calm_collector
from integration.delivery.relay import fleet, policy
from integration.delivery.relay.ports import Publisher
from integration.delivery.relay.run import RelayEnd, Stop, run
from integration.delivery.relay.steps import RelayObserver, unobserved
from integration.kafka.client import connection
from integration.kafka.errors import ProviderUnusableError
from integration.kafka.publisher import KafkaPublisher
from integration.models import Provider
from integration.store import deployments, relay_lease, relay_sharing
from integration.store.sessions import alias
from integration.tracing import spans
from integration.worker import worker_name


def transactional_id(provider_id: int, shard: int) -> str:
    """Fixed for a shard's life: fencing needs the same id, also after the provider's renaming."""
    return f"sluice.{settings.SLUICE_DEPLOYMENT}.{provider_id}.{shard}"


def publisher_for(provider_id: int, shard: int) -> Publisher:
    """Make the real publisher from the provider as it is now. Raises ProviderUnusableError."""
    provider = Provider.objects.using(alias()).filter(pk=provider_id).first()
    # Relays live in threads; none keeps a connection of Django's open for days.
    connections[alias()].close()
    if provider is None:
        raise ProviderUnusableError(str(provider_id), "it was deleted")
    return KafkaPublisher(connection(provider), transactional_id(provider_id, shard))


def run_relay(
    provider_id: int,
    shard: int = 0,
    *,
    stop: Stop,
    observer: RelayObserver = unobserved,
    publisher_for: Callable[[int, int], Publisher] = publisher_for,
    judge: policy.Judge = policy.judge,
) -> RelayEnd:
    """Relay one shard of one provider until `stop()`; see run.run."""
    take = partial(relay_lease.take, provider_id, shard, worker_name())
    make_publisher = partial(publisher_for, provider_id, shard)
    return run(
        take, make_publisher, stop=stop, observer=observer, judge=judge, tracer=spans.tracer()
    )


def relay_all(stop: Stop) -> None:
    """Relay every provider's outbox until `stop()`, or until others hold all of them."""

    def is_held(shard: fleet.Shard) -> bool:
        return run_relay(*shard, stop=stop) is RelayEnd.HELD

    try:
        with calm_collector():
            fleet.relay_each(shards, is_held, stop)
    finally:
        connections[alias()].close()


def shards() -> list[tuple[int, int]]:
    """Every (provider, shard) to relay; none where the database may not act.

    The session is kept, as this is asked each second: opening one costs the server more than all
    else that an idle relay asks. One that has broken meanwhile is opened anew.
    """
    session = connections[alias()]
    if session.connection is not None and not session.is_usable():
        session.close()
    with session.cursor() as cursor:
        if not deployments.may_act(cursor):
            return []
        cursor.execute(relay_sharing.SERVED)
        return [(provider, shard) for provider, shard in cursor.fetchall()]
