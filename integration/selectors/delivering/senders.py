"""The outbound queues that are sent from here, and their endpoints."""

from typing import Final

from django.db.models import Exists, OuterRef, Q

from integration.models import ChannelTarget, Provider, Queue

# As integration.store.starts.SENDS does. What a target got before it was switched off counts.
SENDS: Final = Q(direction=Queue.Direction.OUTBOUND) & (
    Q(endpoint__isnull=False)
    | Exists(ChannelTarget.objects.filter(queue=OuterRef("pk"), endpoint__isnull=False))
)
RUNS: Final = Q(direction=Queue.Direction.INBOUND) | SENDS
# Those about whose topic a cluster can be asked: a JMS broker tells of no offsets and no retention.
AT_KAFKA: Final = Q(provider__kind=Provider.Kind.KAFKA)


def senders() -> frozenset[int]:
    """The queues whose messages are delivered to an endpoint, by number; in one query."""
    return frozenset(Queue.objects.filter(SENDS).order_by().values_list("pk", flat=True))


def sends(queue: Queue) -> bool:
    """Return whether this queue's messages are delivered to an endpoint, its own or a target's."""
    if queue.direction != Queue.Direction.OUTBOUND:
        return False
    return queue.endpoint_id is not None or queue.targets.filter(endpoint__isnull=False).exists()
