"""Reasons why nothing flows: every link between a queue's topic and the database, in order."""

from collections.abc import Callable
from copy import copy
from typing import Final

from crontasks.health import (
    broker,
    flow_group,
    flow_out,
    flow_set_up,
    flow_work,
    live_processes,
)
from crontasks.health.checks import Finding, HealthCheck, check
from integration.models import Queue
from integration.selectors.delivering.senders import sends
from integration.selectors.scope import EVERYTHING, Scope

Walk = tuple[tuple[str, Callable[[Queue], Finding]], ...]
"""Links by their names."""


def check_flow(queue: Queue, scope: Scope = EVERYTHING) -> list[HealthCheck]:
    """Every link from the topic to the database, or from the outbox to the topic, in its order.

    Inbound: provider, system, service, queue, rights, topic, instance, broker, beat, worker, slot,
    lock, in group mode the group, position, rescue; of a JMS broker without rights and rescue, and
    with its address for the topic. While its first position is to be a consumer group's, the start
    follows the topic. Outbound: provider, queue, rights, topic,
    instance of the relay, broker, beat, relay, lease, outbox; where it is delivered from here, also
    the way to its endpoint.
    Asks Kafka, the broker of Celery, the database and nobody else; changes nothing, but a cluster
    with rights may remember the name of a probe. Every link is looked at, as more than one may be
    broken; the first broken one is the one to mend first. Names no other queue outside `scope`.
    Raises Django's OperationalError when the database does not answer.
    """
    return [
        check(name, flow_work.slot(queue, scope) if look is flow_work.slot else look(queue))
        for name, look in walk(queue)
    ]


def broken_ahead(queue: Queue, scope: Scope, *, is_in_kafka: bool) -> list[HealthCheck]:
    """List what stands between a message and its end: the relay's way, then the queue's own.

    Empty when every link is as it should be. Asks and raises as `check_flow` does.
    """
    if not is_in_kafka:
        sending = copy(queue)
        # What leads to Kafka is looked at as for any queue that is sent to.
        sending.direction = Queue.Direction.OUTBOUND
        links = [link for link in check_flow(sending, scope) if not link.ok]
        if links or queue.direction == Queue.Direction.OUTBOUND:
            return links
    return [link for link in check_flow(queue, scope) if not link.ok]


def _of_all(look: Callable[[], Finding]) -> Callable[[Queue], Finding]:
    """A link that is the same for every queue."""
    return lambda _: look()


def walk(queue: Queue) -> Walk:
    """The links of this queue in the order of its messages' way."""
    if queue.provider.is_jms:
        return JMS_WALK if queue.direction == Queue.Direction.INBOUND else FORWARDING_WALK
    if queue.direction == Queue.Direction.INBOUND:
        return _with_start(queue, GROUP_WALK if queue.joins_group else INBOUND_WALK)
    return _with_start(queue, SENDING_WALK) if sends(queue) else OUTBOUND_WALK


def _with_start(queue: Queue, links: Walk) -> Walk:
    """The start behind the topic, while it is a consumer group's position that is to come."""
    if not flow_set_up.awaits_group(queue):
        return links
    behind = [name for name, _ in links].index("topic") + 1
    return (*links[:behind], ("start", flow_set_up.start), *links[behind:])


_START: Final[Walk] = (
    ("instance", flow_work.instance),
    ("broker", _of_all(broker.look)),
    ("beat", flow_work.beat),
)
_RUN: Final[Walk] = (
    ("worker", _of_all(live_processes.worker)),
    ("slot", flow_work.slot),
    ("lock", flow_work.lock),
)
_RELAY: Final[Walk] = (
    ("relay", _of_all(live_processes.relay)),
    ("lease", flow_out.lease),
    ("outbox", flow_out.outbox),
)
_READ: Final[Walk] = (
    ("provider", flow_set_up.provider),
    ("system", flow_set_up.system),
    ("service", flow_set_up.service),
    ("queue", flow_set_up.switches),
    ("rights", flow_set_up.rights),
    ("topic", flow_set_up.topic),
    *_START,
    *_RUN,
)
_POSITION: Final[Walk] = (
    ("position", flow_work.position),
    ("rescue", flow_work.rescue),
)
INBOUND_WALK: Final[Walk] = (*_READ, *_POSITION)
GROUP_WALK: Final[Walk] = (*_READ, ("group", flow_group.group), *_POSITION)
SENDING_WALK: Final[Walk] = (
    ("provider", flow_set_up.provider),
    ("system", flow_set_up.system),
    ("channel", flow_out.channel),
    ("rights", flow_set_up.rights),
    *_RELAY,
    ("topic", flow_set_up.topic),
    ("queue", flow_set_up.switches),
    *_START,
    *_RUN,
    ("endpoint", flow_out.endpoint),
    ("position", flow_work.position),
    ("rescue", flow_work.rescue),
    ("unknown", flow_out.unknown),
    ("delivered", flow_out.delivered),
)
# A JMS broker tells of rights when they are used, and what it has does not expire.
JMS_WALK: Final[Walk] = (
    ("provider", flow_set_up.provider),
    ("system", flow_set_up.system),
    ("service", flow_set_up.service),
    ("queue", flow_set_up.switches),
    ("address", flow_set_up.address),
    *_START,
    *_RUN,
    ("position", flow_work.position),
)
FORWARDING_WALK: Final[Walk] = (
    ("provider", flow_set_up.provider),
    ("system", flow_set_up.system),
    ("relay", _of_all(live_processes.relay)),
    ("queue", flow_set_up.switches),
    ("address", flow_set_up.address),
    *_START,
    *_RUN,
    ("endpoint", flow_out.endpoint),
    ("position", flow_work.position),
    ("delivered", flow_out.delivered),
)
OUTBOUND_WALK: Final[Walk] = (
    ("provider", flow_set_up.provider),
    ("queue", flow_out.switches),
    ("rights", flow_set_up.rights),
    ("topic", flow_set_up.topic),
    *_START,
    *_RELAY,
)
