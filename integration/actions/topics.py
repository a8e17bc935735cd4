"""Making the topic of a new queue, with the broker's own replication."""

import re
import time
from typing import ClassVar, Final

from integration.errors import IntegrationError
from integration.kafka import admin
from integration.kafka.errors import TopicUnknownError
from integration.models import Provider

# A new topic needs a moment until its partitions have leaders.
READY_SECONDS: Final = 20.0
PAUSE_SECONDS: Final = 0.05
MOST_PARTITIONS: Final = 1_000
# Kafka's own rule for names.
LEGAL: Final = re.compile(r"(?!\.{1,2}\Z)[a-zA-Z0-9._-]{1,249}", re.ASCII)


class TopicTakenError(IntegrationError):
    """A topic to be created exists already: it may hold somebody's messages."""

    code: ClassVar[str] = "TOPIC_TAKEN"

    def __init__(self, *, topic: str) -> None:
        super().__init__(
            f"The topic {topic} exists already.",
            next_step="Adopt it, after a look at what is in it, or choose another name.",
        )


def is_legal(topic: str) -> bool:
    """Whether Kafka takes the name."""
    return LEGAL.fullmatch(topic) is not None


def create_topic(
    provider: Provider, topic: str, *, partitions: int, retention_seconds: int
) -> None:
    """Create a topic and wait until it answers.

    Raises TopicTakenError, TopicRefusedError, BrokerUnreachableError, ProviderUnusableError,
    and TopicUnknownError when the cluster does not show it within 20 s.
    """
    settings = {"retention.ms": str(retention_seconds * 1_000)}
    if not admin.create_topic(provider, topic, partitions=partitions, settings=settings):
        raise TopicTakenError(topic=topic)
    deadline = time.monotonic() + READY_SECONDS
    while True:
        try:
            admin.describe(provider, topic)
            return
        except TopicUnknownError:
            if time.monotonic() > deadline:
                raise
            time.sleep(PAUSE_SECONDS)
