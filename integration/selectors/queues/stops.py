"""Queues that stand still: on purpose, or as outbound ones until a person decides."""

from collections.abc import Mapping, Sequence
from typing import Final

from django.db.models import Count, Min

from integration.models import OutboxRow, Queue, QueueChange, RelayLease
from integration.policy.relay_shares import bucket
from integration.policy.states import OutboxKind, OutboxState
from integration.selectors.queues.rows import Standing
from integration.selectors.queues.status import Situation, Status

PAUSED: Final = "pause"
DISABLED: Final = "disable"
DECIDE: Final = "Open the outbox: send it again, or give it up with a reason."
Refused = Mapping[tuple[int, str, int | None], tuple[int, int, str]]


def stops(queues: Sequence[Queue]) -> dict[int, QueueChange]:
    """Tell who stopped each queue that is paused or off, when and why; one query, or none."""
    actions = {
        queue.pk: PAUSED if queue.enabled else DISABLED
        for queue in queues
        if queue.paused or not queue.enabled
    }
    if not actions:
        return {}
    noted = QueueChange.objects.filter(queue__in=actions, action__in=(PAUSED, DISABLED))
    newest = noted.order_by("queue_id", "action", "-at", "-id").distinct("queue_id", "action")
    return {
        row.queue_id: row
        for row in newest
        if row.queue_id is not None and row.action == actions[row.queue_id]
    }


def stuck(queues: Sequence[Queue]) -> dict[int, Standing]:
    """Those of the outbound queues that need a person, in two queries; none without any."""
    outbound = [queue for queue in queues if queue.direction == Queue.Direction.OUTBOUND]
    if not outbound:
        return {}
    doubtful = list(RelayLease.objects.filter(in_doubt_since__isnull=False))
    refused = _refused()
    standings = {
        queue.pk: _in_doubt(queue) if _is_held(queue, doubtful) else _standing(queue, refused)
        for queue in outbound
    }
    return {pk: standing for pk, standing in standings.items() if standing is not None}


def _is_held(queue: Queue, leases: Sequence[RelayLease]) -> bool:
    """Return whether one of these shards holds the queue's topic."""
    place = bucket(queue.topic)
    return any(lease.provider_id == queue.provider_id and place in lease.held for lease in leases)


def _refused() -> Refused:
    """(provider, topic, strict queue) -> count, first row, a code of them; by the dead's index."""
    dead = OutboxRow.objects.filter(state=OutboxState.DEAD, kind=OutboxKind.MESSAGE).order_by()
    groups = dead.values_list("provider", "topic", "strict_queue").annotate(
        count=Count("pk"), first=Min("pk"), code=Min("dead_code")
    )
    return {row[:3]: row[3:] for row in groups}


def _in_doubt(queue: Queue) -> Standing:
    return Status.BLOCKED, Situation(
        f"The relay of {queue.provider.name} does not know whether its last batch is in Kafka, so "
        "it sends nothing.",
        "Open the outbox: look into the topic, then say whether the batch is there.",
    )


def _standing(queue: Queue, refused: Refused) -> Standing | None:
    """A dead row of its own blocks a strict queue, whatever topic it was for; else it goes on."""
    for (_, topic, strict), (_, first, code) in refused.items():
        if strict == queue.pk:
            return Status.BLOCKED, Situation(
                f"Kafka refused row {first} to {topic} ({code}), and this queue keeps its order: "
                "what follows waits.",
                DECIDE,
            )
    free = refused.get((queue.provider_id, queue.topic, None))
    if free is None:
        return None
    count, first, code = free
    what = f"row {first}" if count == 1 else f"{count:,} messages"
    why = f"Kafka refused {what} ({code}); everything else is sent."
    return Status.RUNNING, Situation(why, DECIDE)
