"""What a released message waits for: the links between its row and its next try.

Asks the database alone. The row lies there, so topic, relay and beat are no part of its way.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from django.db.models import Q

from crontasks.health import flow_schedule, flow_sending, flow_set_up, flow_work
from crontasks.health.links import Link, broken
from integration.delivery.owned import HEAD_HELD
from integration.models import Queue, QueuePartition
from integration.policy.states import PartitionState
from integration.selectors.delivering.endpoints import of_queue
from integration.selectors.queues.status import situation

# Here the engine tries released messages: a brake keeps new ones back, a retry the head.
TRIES: Final = (PartitionState.RUNNING, PartitionState.BACKOFF, PartitionState.BRAKED)


def waits_for(queue: Queue, partitions: Collection[int] = ()) -> Link | None:
    """The first thing in the way of this queue's released messages; None: they are tried now.

    `partitions` are those the messages came from; none means all. At most seven queries, and
    those of `of_queue` where the queue sends.
    """
    return next((link for link in _links(queue, partitions) if not link.ok), None)


def _links(queue: Queue, partitions: Collection[int]) -> Iterator[Link]:
    yield flow_set_up.switches(queue)
    yield _system(queue)
    yield flow_work.worker(queue)
    yield flow_schedule.instance(queue)
    yield from _endpoints(queue)
    yield from _places(queue, partitions)


def _system(queue: Queue) -> Link:
    found = flow_set_up.system(queue)
    if found.ok or queue.system is None or queue.is_sequential or not _is_inbound(queue):
        return found
    text = f"{queue.system.name} is switched off, so it is put on hold again."
    return broken(found.name, text, found.next_step)


def _endpoints(queue: Queue) -> Iterator[Link]:
    """Only where none takes messages: which of several a message goes to, its channel says."""
    if not _is_inbound(queue) and all(row.standing.stops for row in of_queue(queue)):
        yield flow_sending.endpoint(queue)


def _places(queue: Queue, partitions: Collection[int]) -> Iterator[Link]:
    places = queue.partitions.filter(Q(partition__in=partitions) if partitions else Q())
    for place in places.exclude(state__in=TRIES).order_by("partition"):
        if not _passes_block(queue, place):
            yield _standing(queue, place)


def _passes_block(queue: Queue, place: QueuePartition) -> bool:
    """A head that was released is what a block waits for; elsewhere rows pass a topic's block."""
    is_blocked = place.state == PartitionState.BLOCKED
    return is_blocked and (place.state_code == HEAD_HELD or not queue.is_sequential)


def _standing(queue: Queue, place: QueuePartition) -> Link:
    found = situation(
        PartitionState(place.state),
        place.state_code,
        place.state_text,
        topic=queue.topic,
        limit=queue.max_open_errors,
        in_order=queue.is_sequential,
    )
    return broken("position", found.why, found.next_step)


def _is_inbound(queue: Queue) -> bool:
    return queue.direction == Queue.Direction.INBOUND


@dataclass(frozen=True, slots=True)
class Wait:
    """What the released messages of some queues wait for, and what to do."""

    queues: tuple[str, ...]
    why: str
    next_step: str


def waits_of(found: Sequence[tuple[Queue, Collection[int]]]) -> list[Wait]:
    """The same of several queues with their partitions; what is one for all is told once."""
    told: dict[tuple[str, str], list[str]] = {}
    for queue, partitions in found:
        link = waits_for(queue, partitions)
        if link is not None:
            told.setdefault((link.text, link.next_step), []).append(queue.name)
    return [Wait(tuple(names), why, step) for (why, step), names in told.items()]
