"""The source of a run: Kafka, or a JMS broker where the library for it is installed."""

from integration.amqp.installed import found
from integration.delivery.ports import Source
from integration.kafka.source import source_of as kafka_source
from integration.models import Queue
from integration.store.jms_receipts import DatabaseReceipts, ReceiptOf


def source_of(queue: Queue) -> tuple[Source, ReceiptOf | None]:
    """Make the source of one run, and what tells the receipts of its messages.

    Raises ProviderUnusableError, JmsLibraryMissingError.
    """
    if not queue.provider.is_jms:
        return kafka_source(queue), None
    source = found("queues.source_of")(queue, DatabaseReceipts(queue.pk))
    return source, source.receipt
