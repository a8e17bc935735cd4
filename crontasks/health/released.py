"""Reasons why a released message waits: the links between its row and its next try.

Asks the database alone. The row lies there, so topic, relay and beat are no part of its way.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from django.db.models import Q

from crontasks.health import flow_out, flow_set_up, flow_work, live_processes
from crontasks.health.checks import HealthCheck, broken, first_broken
from integration.delivery.owned import HEAD_HELD
from integration.models import Queue, QueuePartition
from integration.policy.states import PartitionState
from integration.selectors.delivering.endpoints import of_queue
from integration.selectors.queues.partitions import situation_of

# The engine tries released messages here: the threshold keeps new ones back, a retry the head.
TRIES: Final = (PartitionState.RUNNING, PartitionState.BACKOFF, PartitionState.BRAKED)


def waits_for(queue: Queue, partitions: Collection[int] = ()) -> HealthCheck | None:
    """The first thing in the way of this queue's released messages; None: they are tried now.

    `partitions` are those the messages came from; none means all. At most seven queries, and
    those of `of_queue` where the queue sends.
    """
    return first_broken(_links(queue, partitions))


def _links(queue: Queue, partitions: Collection[int]) -> Iterator[HealthCheck]:
    yield flow_set_up.switches(queue)
    yield _system(queue)
    yield live_processes.worker()
    yield flow_work.instance(queue)
    yield from _endpoints(queue)
    yield from _places(queue, partitions)


def _system(queue: Queue) -> HealthCheck:
    link = flow_set_up.system(queue)
    if link.ok or queue.system is None or queue.is_sequential or not _is_inbound(queue):
        return link
    text = f"{queue.system.name} is switched off, so it is put on hold again."
    return broken(link.name, text, link.next_step)


def _endpoints(queue: Queue) -> Iterator[HealthCheck]:
    """Judge only if none takes messages: which of several a message goes to, its channel says."""
    if not _is_inbound(queue) and all(row.standing.stops for row in of_queue(queue)):
        yield flow_out.endpoint(queue)


def _places(queue: Queue, partitions: Collection[int]) -> Iterator[HealthCheck]:
    places = queue.partitions.filter(Q(partition__in=partitions) if partitions else Q())
    for place in places.exclude(state__in=TRIES).order_by("partition"):
        if not _passes_block(queue, place):
            yield broken("position", *situation_of(queue, place))


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
