"""Lag monitor: writes down what the brokers say about every queue's topic, for people."""

from typing import Final

from crontasks.cursor import django_cursor
from crontasks.definitions import NoParameters, crontask
from crontasks.outcome import Context, Outcome, RunState
from integration.delivery.values import TopicFacts
from integration.errors import IntegrationError
from integration.kafka import admin
from integration.kafka.waiting import first_waiting
from integration.models import Queue

_WRITE: Final = """
    UPDATE integration_queuepartition SET low_watermark = %s, high_watermark = %s,
        seen_at = clock_timestamp()
    WHERE queue_id = %s AND partition = %s AND topic_uuid = %s"""


@crontask("lag_monitor", title="Lag monitor")
class LagMonitor:
    """Asks every provider for the watermarks of its queues' topics.

    So the console shows the lag of queues that nobody reads at the moment, too. A broker that
    does not answer makes the run FAILED; it decides nothing.
    """

    def run(self, parameters: NoParameters, context: Context) -> Outcome:  # noqa: ARG002 - none
        unreachable = 0
        silent: set[int] = set()
        queues = Queue.objects.select_related("provider").filter(
            enabled=True, direction=Queue.Direction.INBOUND
        )
        for queue in queues:
            if context.should_stop():
                break
            if queue.provider_id in silent:
                continue
            if not _look(queue, context):
                silent.add(queue.provider_id)
                unreachable += 1
        state = RunState.FAILED if unreachable else RunState.DONE
        return Outcome(counts={"unreachable": unreachable}, state=state)


def _look(queue: Queue, context: Context) -> bool:
    try:
        facts = admin.topic_facts(queue.provider, queue.topic)
    except IntegrationError as e:
        context.say(f"{queue.name}: {e.code}: {e.sentence}")
        return False
    if facts is not None:
        write(queue.pk, facts)
        write_oldest(queue, facts)
    return True


def write(queue_id: int, facts: TopicFacts) -> None:
    """Store watermarks of the partitions that are still those of this topic."""
    with django_cursor() as cursor:
        for partition, low in facts.low.items():
            high = facts.high[partition]
            cursor.execute(_WRITE, (low, high, queue_id, partition, facts.topic_uuid))


def write_oldest(queue: Queue, facts: TopicFacts) -> None:
    """Store since when the first message of each partition waits; nothing waiting, nothing told."""
    waiting = {
        row.partition: max(row.next_offset, facts.low[row.partition])
        for row in queue.partitions.filter(topic_uuid=facts.topic_uuid)
        if row.next_offset < facts.high.get(row.partition, 0)
    }
    oldest = first_waiting(queue.provider, queue.topic, waiting) if waiting else {}
    for row in queue.partitions.all():
        queue.partitions.filter(pk=row.pk).update(oldest_waiting_at=oldest.get(row.partition))
