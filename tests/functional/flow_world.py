"""What check_flow and doctor are asked about: a sound installation."""

from crontasks.models import Heartbeat
from integration.models import Queue
from integration.store.sessions import database_now
from tests.support.builders import a_queue
from tests.support.kafka_world import Kafka


def a_heart(kind: str, **fields) -> Heartbeat:
    defaults = {
        "node": f"{kind}@host",
        "pid": 1,
        "started_at": database_now(),
        "seen_at": database_now(),
        "leads": True,
        "slots": 2,
        "queues": "celery,relay",
    }
    return Heartbeat.objects.create(kind=kind, **(defaults | fields))


def a_whole_chain(bootstrap: str) -> Queue:
    """An inbound queue with everything it needs, and a beat and a worker that are alive."""
    a_heart("beat")
    a_heart("worker")
    made = a_queue(Kafka(bootstrap))
    return Queue.objects.select_related("provider", "system", "default_service").get(pk=made.pk)
