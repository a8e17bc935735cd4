"""Why nothing flows: every link between a queue's topic and the database, looked at in order."""

from collections.abc import Callable
from typing import Final

from crontasks.health import flow_out, flow_schedule, flow_sending, flow_set_up, flow_work
from crontasks.health.links import Link
from integration.models import Queue
from integration.selectors.delivering.senders import sends
from integration.selectors.scope import EVERYTHING, Scope


def check_flow(queue: Queue, scope: Scope = EVERYTHING) -> list[Link]:
    """Every link from the topic to the database, or from the outbox to the topic, in its order.

    Inbound: provider, system, service, queue, topic, instance, broker, beat, worker, slot,
    lock, position. Outbound: provider, queue, topic, instance of the relay, broker, beat, relay,
    lease, outbox; and where it is delivered from here, the rest of the way to its endpoint. Asks
    Kafka, the broker of Celery, the database and nobody else; changes nothing. Every link is looked
    at, as more than one may be broken; the first broken one is the one to mend first. Names no
    other queue outside `scope`. Raises Django's OperationalError when the database does not answer.
    """
    return [
        flow_work.slot(queue, scope) if look is flow_work.slot else look(queue)
        for look in walk(queue)
    ]


def walk(queue: Queue) -> tuple[Callable[[Queue], Link], ...]:
    """The links of this queue in the order of its messages' way."""
    if queue.direction == Queue.Direction.INBOUND:
        return INBOUND_WALK
    return SENDING_WALK if sends(queue) else OUTBOUND_WALK


INBOUND_WALK: Final[tuple[Callable[[Queue], Link], ...]] = (
    flow_set_up.provider,
    flow_set_up.system,
    flow_set_up.service,
    flow_set_up.switches,
    flow_set_up.topic,
    flow_schedule.instance,
    flow_schedule.broker,
    flow_schedule.beat,
    flow_work.worker,
    flow_work.slot,
    flow_work.lock,
    flow_work.position,
)
SENDING_WALK: Final[tuple[Callable[[Queue], Link], ...]] = (
    flow_set_up.provider,
    flow_set_up.system,
    flow_sending.channel,
    flow_out.relay,
    flow_out.lease,
    flow_out.outbox,
    flow_set_up.topic,
    flow_set_up.switches,
    flow_schedule.instance,
    flow_schedule.broker,
    flow_schedule.beat,
    flow_work.worker,
    flow_work.slot,
    flow_work.lock,
    flow_sending.endpoint,
    flow_work.position,
    flow_sending.unknown,
    flow_sending.delivered,
)
OUTBOUND_WALK: Final[tuple[Callable[[Queue], Link], ...]] = (
    flow_set_up.provider,
    flow_out.switches,
    flow_set_up.topic,
    flow_schedule.instance,
    flow_schedule.broker,
    flow_schedule.beat,
    flow_out.relay,
    flow_out.lease,
    flow_out.outbox,
)
