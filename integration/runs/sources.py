"""The source of a run: Kafka, or a JMS broker where the library for it is installed."""

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from django.conf import settings
from django.utils.module_loading import import_string

from integration.amqp.errors import JmsLibraryMissingError
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
    if find_spec("proton") is None:
        raise JmsLibraryMissingError
    make: Callable[..., Any] = import_string("integration.amqp.queues.source_of")
    name = f"sluice-{settings.SLUICE_DEPLOYMENT}-{queue.name}"
    source = make(queue, DatabaseReceipts(queue.pk), name=name)
    return source, source.receipt
