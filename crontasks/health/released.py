"""Reasons why a released message waits: the links between its row and its next try.

Asks the database alone. The row lies there, so topic, relay and beat are no part of its way.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from django.db.models import Q

from crontasks.health import flow_out, flow_set_up, flow_work, live_processes
from crontasks.health.checks import Finding, Health, HealthCheck
from integration.delivery.owned import HEAD_HELD
from integration.models import Queue, QueuePartition
from integration.policy.states import PartitionState
from integration.selectors.delivering.endpoints import of_queue
from integration.selectors.masking.partitions import cover_places
from integration.selectors.queues.partitions import situation_of
from integration.selectors.queues.status import Situation

# The engine tries released messages here: the threshold keeps new ones back, a retry the head.
TRIES: Final = (PartitionState.RUNNING, PartitionState.BACKOFF, PartitionState.BRAKED)


def waits_for(queue: Queue, partitions: Collection[int] = ()) -> HealthCheck | None:
    """The first thing in the way of this queue's released messages; None: they are tried now.

    `partitions` are those the messages came from; none means all. At most seven queries, and
    those of `of_queue` where the queue sends.
    """
    for name, found in _links(queue, partitions):
        if isinstance(found, Situation):
            return HealthCheck(name, Health.FAILING, *found)
    return None


def _links(queue: Queue, partitions: Collection[int]) -> Iterator[tuple[str, Finding]]:
    yield "queue", flow_set_up.switches(queue)
    yield "system", _system(queue)
    yield "worker", live_processes.worker()
    yield "instance", flow_work.instance(queue)
    if not _is_inbound(queue) and all(row.standing.stops for row in of_queue(queue)):
        # Judged only if none takes messages: which of several one goes to, its channel says.
        yield "endpoint", flow_out.endpoint(queue)
    still = _standing_still(queue, partitions)
    cover_places(still)
    for place in still:
        yield "position", situation_of(queue, place)


def _system(queue: Queue) -> Finding:
    found = flow_set_up.system(queue)
    if isinstance(found, str) or queue.is_sequential or not _is_inbound(queue):
        return found
    why = f"{queue.system} is switched off, so it is put on hold again."
    return Situation(why, found.next_step)


def _standing_still(queue: Queue, partitions: Collection[int]) -> list[QueuePartition]:
    places = queue.partitions.filter(Q(partition__in=partitions) if partitions else Q())
    stopped = places.exclude(state__in=TRIES).order_by("partition")
    return [place for place in stopped if not _passes_block(queue, place)]


def _passes_block(queue: Queue, place: QueuePartition) -> bool:
    """A head that was released is what a block waits for; elsewhere rows pass a topic's block."""
    is_blocked = place.state == PartitionState.BLOCKED
    return is_blocked and (place.state_code == HEAD_HELD or not queue.is_sequential)


def _is_inbound(queue: Queue) -> bool:
    return queue.direction == Queue.Direction.INBOUND


@dataclass(frozen=True, slots=True)
class Wait:
    """The thing that released messages of some queues wait for, and what to do."""

    queues: tuple[str, ...]
    why: str
    next_step: str


def waits_of(places: Sequence[tuple[Queue, Collection[int]]]) -> list[Wait]:
    """The same of several queues with their partitions; what is one for all stands once."""
    names: dict[tuple[str, str], list[str]] = {}
    for queue, partitions in places:
        link = waits_for(queue, partitions)
        if link is not None:
            names.setdefault((link.why, link.next_step), []).append(queue.name)
    return [Wait(tuple(queues), why, step) for (why, step), queues in names.items()]
