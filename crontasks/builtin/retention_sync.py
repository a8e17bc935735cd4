"""Retention sync: a queue keeps its closed failures as long as the topic keeps its records."""

import logging
from dataclasses import dataclass

from django.db import transaction

from crontasks.definitions import crontask
from crontasks.outcome import Context, Outcome, RunState
from crontasks.parameters import option
from integration.actions import configuration
from integration.actions.configuration import Author
from integration.errors import IntegrationError
from integration.kafka import admin
from integration.models import Queue
from integration.selectors.delivering.senders import AT_KAFKA

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class SyncParameters:
    """The setting whether the queues follow."""

    apply: bool = option(True, "Set the queue's retention; off = only tell the difference.")


@crontask("retention_sync", title="Retention sync", parameters=SyncParameters, is_noticed=True)
class RetentionSync:
    """Sets every queue's retention to that of its topic and tells what it changed.

    Topics without a time limit leave the queue as it is; a JMS broker tells of none.
    """

    def run(self, parameters: SyncParameters, context: Context) -> Outcome:
        counts = {"changed": 0, "different": 0, "unreachable": 0, "same": 0}
        for queue in Queue.objects.select_related("provider").filter(AT_KAFKA, enabled=True):
            if context.should_stop():
                break
            counts[_sync(queue, parameters, context)] += 1
        del counts["same"]
        state = RunState.FAILED if counts["unreachable"] else RunState.DONE
        return Outcome(counts=counts, state=state)


def follow(queue_id: int, seconds: int, actor: str) -> None:
    """Change the stored row, not the one that was read before Kafka was asked; with its audit."""
    with transaction.atomic():
        queue = Queue.objects.select_for_update(of=("self",)).get(pk=queue_id)
        queue.retention_seconds = seconds
        configuration.save(queue, Author(actor, "The queue follows the retention of its topic."))


def _sync(queue: Queue, parameters: SyncParameters, context: Context) -> str:
    try:
        topic = admin.describe(queue.provider, queue.topic)
    except IntegrationError as e:
        context.say(f"{queue.name}: {e.code}: {e.sentence}")
        return "unreachable"
    if topic.max_message_bytes != queue.topic_max_bytes:
        Queue.objects.filter(pk=queue.pk).update(topic_max_bytes=topic.max_message_bytes)
    if topic.retention_ms is None or not topic.deletes_old:
        return "same"
    seconds = max(1, topic.retention_ms // 1_000)
    if seconds == queue.retention_seconds:
        return "same"
    times = f"the topic keeps {seconds:,} s, the queue {queue.retention_seconds:,} s"
    difference = f"{queue.name}: {times}"
    if not parameters.apply:
        context.say(f"{difference}; nothing was changed.")
        return "different"
    follow(queue.pk, seconds, context.actor)
    context.say(f"{difference}; the queue follows.")
    logger.info("retention follows the topic", extra={"queue": queue.name, "seconds": seconds})
    return "changed"
