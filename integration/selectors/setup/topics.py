"""What the broker says about a queue's topic right now, asked for a decision of a person."""

from integration.delivery.values import TopicFacts
from integration.kafka import admin
from integration.models import Queue


def facts_now(queue_id: int) -> TopicFacts | None:
    """None when the topic is not there. Raises BrokerUnreachableError after 5 s."""
    queue = Queue.objects.select_related("provider").get(pk=queue_id)
    return admin.topic_facts(queue.provider, queue.topic)
