"""What the cluster has a say in before a queue is stored: topics to be made, time kept."""

from django.core.exceptions import ValidationError

from integration.actions.topics import TopicTakenError, is_legal
from integration.errors import IntegrationError
from integration.kafka import admin
from integration.models import Queue
from integration.selectors.setup import queues as queue_setup


def check_new(queue: Queue, partitions: int) -> None:
    """Raises ValidationError where the queue's topic cannot be created with these partitions."""
    if not is_legal(queue.topic):
        raise ValidationError(
            {"topic": "Kafka takes letters, digits, dot, - and _ only, 249 at most."}
        )
    if queue.is_sequential and partitions != 1:
        raise ValidationError(
            {"partitions": "Sequential needs exactly one: there is no order between two."}
        )
    _refuse_taken(queue, "topic")


def check_error_queue(errors: Queue) -> None:
    """Raises ValidationError where an error queue cannot be made along with its queue."""
    if queue_setup.is_named(errors.name):
        raise ValidationError(
            {"create_error_queue": f"There is a queue {errors.name} already: choose it."}
        )
    if not is_legal(errors.topic):
        raise ValidationError({"create_error_queue": f"{errors.topic} is too long a name."})
    _refuse_taken(errors, "create_error_queue")


def follow_retention(queue: Queue) -> None:
    """An adopted topic's own time limit is the queue's."""
    try:
        topic = admin.describe(queue.provider, queue.topic)
    except IntegrationError:
        # registration.check asks again, and tells it at its field.
        return
    if topic.deletes_old and topic.retention_ms is not None:
        queue.retention_seconds = max(1, topic.retention_ms // 1_000)


def _refuse_taken(queue: Queue, field: str) -> None:
    try:
        is_there = admin.topic_facts(queue.provider, queue.topic) is not None
    except IntegrationError as e:
        raise ValidationError({"provider": str(e)}) from e
    if is_there:
        raise ValidationError({field: str(TopicTakenError(topic=queue.topic))})
