"""What stands for topic, partitions and offsets at a JMS broker, which knows none of them."""

import uuid
from typing import Final

from integration.models.queue import Queue
from integration.values import TopicFacts

PARTITION: Final = 0
# No broker tells where the end is; no position comes near this one.
FAR: Final = 2**62


def identity(queue: Queue) -> str:
    """Return what stands for a topic's UUID: the queue's own, for it alone counts its messages.

    Another queue of the same address gives the same numbers to other messages. A position that is
    there keeps the one that it has.
    """
    known = queue.partitions.values_list("topic_uuid", flat=True).first()
    own = uuid.uuid5(uuid.NAMESPACE_URL, f"amqp:{queue.provider_id}:{queue.topic}:{queue.pk}")
    return known or str(own)


def facts_of(topic_uuid: str) -> TopicFacts:
    """One partition, of which nothing is ever gone."""
    return TopicFacts(topic_uuid, {PARTITION: 0}, {PARTITION: FAR})
