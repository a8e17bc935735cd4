"""What tells the watch of idle queues that something came: from Kafka, or from a JMS broker."""

from typing import Any

from integration.amqp.installed import found
from integration.kafka.arrivals import arrivals_of as kafka_arrivals
from integration.models import Provider


def arrivals_of(provider: Provider) -> Any:
    """Make it; see crontasks.running.idle.Arrivals.

    Raises ProviderUnusableError, JmsLibraryMissingError.
    """
    return found("arrivals.arrivals_of")(provider) if provider.is_jms else kafka_arrivals(provider)
