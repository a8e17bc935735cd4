"""A queue of ours at a JMS broker: its address, the source of its runs, and what waits for it."""

from collections.abc import Collection
from typing import NamedTuple

from django.conf import settings
from django.db.models import Exists, OuterRef, Q

from integration.amqp.browsing import Browser
from integration.amqp.errors import JmsSubscriptionHiddenError
from integration.amqp.opening import open_receiver
from integration.amqp.positions import identity
from integration.amqp.receiving import Address
from integration.amqp.source import AmqpSource, Receipts
from integration.amqp.waiting import Browsed, Limits
from integration.models.partition import QueuePartition
from integration.models.provider import Provider
from integration.models.queue import Queue
from integration.policy.jms import connection_name


def address_of(queue: Queue) -> Address:
    return Address(queue.topic, queue.subscription, queue.selector)


def source_of(queue: Queue, receipts: Receipts) -> AmqpSource:
    """Make the source of one run."""
    # Two batches: one in work, and one on its way.
    credit = 2 * queue.batch_size
    name, address = _name_of(queue), address_of(queue)
    return AmqpSource(
        lambda: open_receiver(queue.provider, address, name=name, credit=credit),
        receipts,
        identity(queue),
    )


def browser_of(provider: Provider, purpose: str) -> Browser:
    """Connect for looking at what waits for queues of this broker. Raises JmsError."""
    return Browser(provider, name=f"sluice-{settings.SLUICE_DEPLOYMENT}-{purpose}")


class Source(NamedTuple):
    """Where a queue reads, and the name of the connection by which it does."""

    address: Address
    reader: str


def sources_of(queues: Collection[int]) -> dict[int, Source]:
    """Return where these queues read, by number, as far as that may be looked at.

    A durable subscription is let alone until a run has begun it: the broker would make one that
    has no selector.
    """
    begun = Exists(QueuePartition.objects.filter(queue=OuterRef("pk"), epoch__gt=0))
    found = Queue.objects.filter(Q(subscription="") | begun, pk__in=queues)
    return {queue.pk: Source(address_of(queue), _name_of(queue)) for queue in found}


def browsed(browser: Browser, queue: Queue, limits: Limits) -> Browsed:
    """Look at what waits for a queue, and take nothing of it. Raises JmsError."""
    if queue.pk not in sources_of([queue.pk]):
        raise JmsSubscriptionHiddenError(queue.provider.name, "no run has begun it yet")
    return browser.look(address_of(queue), limits, reader=_name_of(queue))


def _name_of(queue: Queue) -> str:
    return connection_name(settings.SLUICE_DEPLOYMENT, queue.name)
