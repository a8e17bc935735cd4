"""What stands for topic, partitions and offsets at a JMS broker, which knows none of them."""

import uuid
from typing import Final

from integration.values import TopicFacts

PARTITION: Final = 0
# No broker tells where the end is; no position comes near this one.
FAR: Final = 2**62


def identity(provider_id: int, address: str) -> str:
    """What stands for a topic's UUID: it changes with the broker or the address alone."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"amqp:{provider_id}:{address}"))


def facts_of(topic_uuid: str) -> TopicFacts:
    """One partition, of which nothing is ever gone."""
    return TopicFacts(topic_uuid, {PARTITION: 0}, {PARTITION: FAR})
