"""A queue of ours at a JMS broker: its address, and the source of its runs."""

from integration.amqp.opening import open_receiver
from integration.amqp.positions import identity
from integration.amqp.receiving import Address
from integration.amqp.source import AmqpSource, Receipts
from integration.models.queue import Queue


def address_of(queue: Queue) -> Address:
    return Address(queue.topic, queue.subscription, queue.selector)


def source_of(queue: Queue, receipts: Receipts, *, name: str) -> AmqpSource:
    """Make the source of one run; only one connection at a time has that name."""
    # Two batches: one in work, and one on its way.
    credit = 2 * queue.batch_size

    return AmqpSource(
        lambda: open_receiver(queue.provider, address_of(queue), name=name, credit=credit),
        receipts,
        identity(queue.provider_id, queue.topic),
    )
