"""What a former cluster may have: the provider was moved after the state that was restored.

A look at the cluster that it names now does not tell what became of batches stamped for the former
one, nor whether that has messages which were not stamped yet in this state.
"""

from collections.abc import Collection
from typing import Final

from django.db.models import F, Q, QuerySet

from integration.delivery.relay import policy
from integration.kafka import aftermath
from integration.models import OutboxRow, Provider, RelayLease
from integration.models.outbox import of_lease
from integration.policy.states import OutboxState
from integration.store import relay_lease

WAITING: Final = (OutboxState.PENDING, OutboxState.STAMPED)
HAS_BATCH: Final = Q(batch__isnull=False) | Q(in_doubt_since__isnull=False)


def moved(provider: Provider, *, is_silent: bool = False) -> list[RelayLease]:
    """The leases whose topics or batch may have gone to a former cluster since they were stored.

    One that holds no topics tells nothing but where its batch went, if it has one: nobody has
    noted there what the provider is since it was given up. The cluster is asked who it is, unless
    it `is_silent`. Raises BrokerUnreachableError, ProviderUnusableError.
    """
    holds = Q(first_bucket__lt=F("end_bucket"))
    leases = RelayLease.objects.filter(holds | HAS_BATCH, provider=provider).order_by("shard")
    if not leases:
        return []
    cluster = "" if is_silent else aftermath.cluster(provider)
    changed = relay_lease.changed_since(provider.pk)
    return [
        lease
        for lease in leases
        if policy.has_moved(lease.cluster, cluster, is_provider_changed=lease.shard in changed)
    ]


def with_batch(leases: Collection[RelayLease]) -> list[int]:
    """Their shards with a batch on its way or in doubt."""
    return [lease.shard for lease in leases if lease.batch or lease.in_doubt_since]


def rows(provider: int, shards: Collection[int]) -> set[int]:
    """The rows of these shards' batches."""
    found: set[int] = set()
    for lease in RelayLease.objects.filter(provider=provider, shard__in=shards):
        doubtful = of_lease(lease).filter(state=OutboxState.STAMPED)
        found |= {*(lease.batch_rows or ()), *doubtful.values_list("pk", flat=True)}
    return found


def others(provider: int, shards: Collection[int]) -> QuerySet[OutboxRow]:
    """What waits to be sent, but for these shards' batches."""
    waiting = OutboxRow.objects.filter(provider=provider, state__in=WAITING)
    return waiting.exclude(pk__in=rows(provider, shards)) if shards else waiting
