"""What the broker says about a queue's topic right now, asked for a decision of a person."""

from integration.kafka import admin
from integration.models import Queue
from integration.values import TopicFacts


def facts_now(queue_id: int) -> TopicFacts | None:
    """None when the topic is not there. Raises BrokerUnreachableError after 5 s."""
    queue = Queue.objects.select_related("provider").get(pk=queue_id)
    return admin.topic_facts(queue.provider, queue.topic)
