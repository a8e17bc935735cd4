"""Batches that a former cluster may have: the provider was moved since they were stamped.

A look at the cluster that it names now finds nothing of them, and decides nothing.
"""

from collections.abc import Collection
from typing import Final

from django.db.models import Q, QuerySet

from integration.delivery.relay import policy
from integration.kafka import aftermath
from integration.models import OutboxRow, Provider, RelayLease
from integration.models.outbox import of_lease
from integration.policy.states import OutboxState
from integration.store import relay_lease

WAITING: Final = (OutboxState.PENDING, OutboxState.STAMPED)


def shards(provider: Provider, *, is_silent: bool = False) -> list[int]:
    """The shards with a batch, on its way or in doubt, that a former cluster may have.

    The cluster is asked who it is, unless it `is_silent`. Raises BrokerUnreachableError,
    ProviderUnusableError.
    """
    has_batch = Q(batch__isnull=False) | Q(in_doubt_since__isnull=False)
    leases = list(RelayLease.objects.filter(has_batch, provider=provider).order_by("shard"))
    if not leases:
        return []
    cluster = "" if is_silent else aftermath.cluster(provider)
    changed = relay_lease.changed_since(provider.pk)
    return [
        lease.shard
        for lease in leases
        if policy.has_moved(lease.cluster, cluster, is_provider_changed=lease.shard in changed)
    ]


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
