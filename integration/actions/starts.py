"""Asks for a run of a queue, so that a decision takes effect at once."""

from datetime import timedelta
from typing import Final

from django.db.models import Q

from integration.clock import database_now
from integration.models import Queue

REISSUED_AFTER: Final = timedelta(seconds=10)


def ask_for_start(queue_id: int) -> bool:
    """Leave a request for the dispatcher; False when a recent one still stands."""
    stale = Q(start_requested_at__isnull=True) | Q(
        start_requested_at__lt=database_now() - REISSUED_AFTER
    )
    queue = Queue.objects.filter(stale, pk=queue_id, enabled=True, paused=False)
    return queue.update(start_requested_at=database_now()) == 1
