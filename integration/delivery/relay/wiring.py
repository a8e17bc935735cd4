"""Builds what a relay works with: the only place that knows the real publisher and tables."""

from django.conf import settings
from django.db import connections

from integration.delivery.relay.ports import Publisher, Tenure
from integration.kafka.client import connection
from integration.kafka.errors import ProviderUnusableError
from integration.kafka.publisher import KafkaPublisher
from integration.models import Provider
from integration.store import deployments, relay_lease
from integration.store.sessions import alias
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


def take(provider_id: int, shard: int) -> Tenure | None:
    """Become the owner of a shard; None when another process is. Raises RelayLostError."""
    return relay_lease.take(provider_id, shard, worker_name())


def shards() -> list[tuple[int, int]]:
    """Every (provider, shard) to relay; none in a copy of another environment's database."""
    try:
        with connections[alias()].cursor() as cursor:
            if deployments.foreign_environment(cursor) is not None:
                return []
        return [(pk, 0) for pk in Provider.objects.using(alias()).values_list("pk", flat=True)]
    finally:
        connections[alias()].close()


def doubt_text(count: int) -> str:
    return (
        f"{count} messages were about to be sent when the relay ended, and Kafka has forgotten "
        "whether they were. Look for them in their topics, then say whether they are there."
    )
