"""The first position of a queue that is read and has none yet: given by its first run.

A queue saved in the console has one at once. One that a configuration file made, or that a
target's endpoint turned into one that sends, may not: no broker could be asked then.
"""

from datetime import datetime

from django.core.exceptions import ValidationError

from integration import registration
from integration.errors import IntegrationError
from integration.models import ChannelTarget, ConfigurationChange, Queue, QueuePartition
from integration.store.sessions import alias


def hindrance(queue_id: int) -> str:
    """Give the queue its positions where it has none; why that cannot be done now, or nothing."""
    if QueuePartition.objects.using(alias()).filter(queue=queue_id).exists():
        return ""
    queue = Queue.objects.using(alias()).select_related("provider").filter(pk=queue_id).first()
    if queue is None:
        return ""
    since = _sends_since(queue)
    if since is not None and queue.start_from == Queue.StartFrom.END:
        # What was published since then is to be sent, however late the first run comes.
        queue.start_from, queue.start_time = Queue.StartFrom.TIME, since
    try:
        registration.register(queue)
    except IntegrationError as problem:
        return str(problem)
    except ValidationError as problem:
        return " ".join(problem.messages)
    return ""


def _sends_since(queue: Queue) -> datetime | None:
    """Return when the queue or a target of it first got an endpoint, as the audit has it."""
    if queue.direction != Queue.Direction.OUTBOUND:
        return None
    targets = ChannelTarget.objects.using(alias()).filter(queue=queue, endpoint__isnull=False)
    named = [("queue", str(queue.pk))] if queue.endpoint_id is not None else []
    named += [("channeltarget", str(pk)) for pk in targets.values_list("pk", flat=True)]
    rows = ConfigurationChange.objects.using(alias()).filter(after__endpoint__gt="")
    moments = [
        rows.filter(kind=kind, subject=subject).order_by("at").values_list("at", flat=True).first()
        for kind, subject in named
    ]
    return min((at for at in moments if at is not None), default=None)
