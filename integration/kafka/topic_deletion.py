"""Deleting a topic: with all its messages, and for good."""

from integration.kafka.client import connection, new_admin
from integration.kafka.facts import ANSWER_SECONDS, TopicGoneError, answer, refusals_told
from integration.models import Provider


def delete_topic(provider: Provider, topic: str) -> bool:
    """Delete a topic; False when there is none.

    Raises BrokerUnreachableError, BrokerRefusedError.
    """
    to = connection(provider)
    with new_admin(to) as admin, refusals_told(admin, to.name):
        asked = admin.delete_topics([topic], request_timeout=ANSWER_SECONDS)
        try:
            answer(asked[topic], to.name)
        except TopicGoneError:
            return False
    return True
