"""Who stopped queues on purpose, when and why: by what was noted when they did."""

from collections.abc import Sequence
from typing import Final

from integration.models import Queue, QueueChange
from integration.selectors.queues.rows import Stop

PAUSED: Final = "pause"
DISABLED: Final = "disable"


def stops(queues: Sequence[Queue]) -> dict[int, Stop]:
    """The newest stop of each queue that is paused or off, in one query; none without any."""
    wanted = {
        queue.pk: PAUSED if queue.enabled else DISABLED
        for queue in queues
        if queue.paused or not queue.enabled
    }
    if not wanted:
        return {}
    noted = QueueChange.objects.filter(queue__in=wanted, action__in=(PAUSED, DISABLED))
    newest = noted.order_by("queue_id", "action", "-at", "-id").distinct("queue_id", "action")
    return {
        row.queue_id: Stop(row.at, row.actor, row.reason)
        for row in newest
        if row.queue_id is not None and row.action == wanted[row.queue_id]
    }
