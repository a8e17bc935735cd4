"""A queue of ours at a JMS broker: its address, the source of its runs, and what waits for it."""

from django.conf import settings

from integration.amqp.browsing import Browser
from integration.amqp.errors import JmsSubscriptionHiddenError
from integration.amqp.opening import open_receiver
from integration.amqp.positions import identity
from integration.amqp.receiving import Address
from integration.amqp.source import AmqpSource, Receipts
from integration.amqp.waiting import Browsed, Limits
from integration.models.provider import Provider
from integration.models.queue import Queue
from integration.policy.jms import connection_name


def address_of(queue: Queue) -> Address:
    return Address(queue.topic, queue.subscription, queue.selector)


def source_of(queue: Queue, receipts: Receipts) -> AmqpSource:
    """Make the source of one run."""
    # Two batches: one in work, and one on its way.
    credit = 2 * queue.batch_size
    name = connection_name(settings.SLUICE_DEPLOYMENT, queue.name)

    return AmqpSource(
        lambda: open_receiver(queue.provider, address_of(queue), name=name, credit=credit),
        receipts,
        identity(queue),
    )


def browser_of(provider: Provider, purpose: str) -> Browser:
    """Connect for looking at what waits for queues of this broker. Raises JmsError."""
    return Browser(provider, name=f"sluice-{settings.SLUICE_DEPLOYMENT}-{purpose}")


def browsed(browser: Browser, queue: Queue, limits: Limits) -> Browsed:
    """Look at what waits for a queue, and take nothing of it. Raises JmsError.

    A durable subscription is let alone until a run has begun it: the broker would make something
    else of that name.
    """
    if queue.subscription and not queue.partitions.filter(epoch__gt=0).exists():
        raise JmsSubscriptionHiddenError(queue.provider.name, "no run has begun it yet")
    reader = connection_name(settings.SLUICE_DEPLOYMENT, queue.name)
    return browser.look(address_of(queue), limits, reader=reader)
