"""Partitions that were added to a queue's topic: the time that they wait, without waiting."""

from integration.models import Queue, QueuePartition
from integration.store.sessions import database_now


def producers_know(queue: Queue) -> None:
    """Let the time be over for which producers may not know of them."""
    waiting = QueuePartition.objects.filter(queue=queue, producers_know_at__isnull=False)
    waiting.update(producers_know_at=database_now())
