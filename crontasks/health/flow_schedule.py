"""The links of the flow check that start the work: the cron instance, and beat."""

from datetime import timedelta
from typing import Final

from django.db.models import QuerySet
from django.utils import timezone

from crontasks.health import broker as celery_broker
from crontasks.health import live_processes
from crontasks.health.links import Link, broken, good
from crontasks.health.live_processes import ALIVE
from crontasks.models import CronInstance
from crontasks.schedule.moments import upcoming
from integration.models import Queue
from integration.selectors.delivering.senders import sends

# A tick this late means that beat does not work on the instance.
_LATE: Final = timedelta(seconds=30)


def instance(queue: Queue) -> Link:
    if queue.direction == Queue.Direction.OUTBOUND and not sends(queue):
        return relay_instance(queue)
    found = _instance_of(queue)
    if found is None:
        text = "The queue has no cron instance, so no schedule starts it."
        return broken("instance", text, "Save the queue again; that creates one.")
    return _scheduled(found, "instance")


def relay_instance(queue: Queue) -> Link:  # noqa: ARG001 - every link is asked in the same way
    """The schedule that starts the relay."""
    found = _relays().first()
    name = "instance"
    if found is None:
        text = "There is no cron instance of the relay, so no schedule starts it."
        return broken(name, text, "Run `python manage.py migrate`; that creates one.")
    return _scheduled(found, name)


def _scheduled(found: CronInstance, name: str) -> Link:
    if not found.active:
        return broken(name, f"{found.name} is not active.", "Switch the instance on.")
    if found.periodic_task is None or not found.periodic_task.enabled:
        text = f"Beat does not know {found.name}: its periodic task is missing or switched off."
        return broken(name, text, "Save the instance again; that mends it.")
    return good(name, f"{found.name}, {found.schedule_words}.")


def _relays() -> QuerySet[CronInstance]:
    instances = CronInstance.objects.select_related("periodic_task")
    return instances.filter(task="relay").order_by("-active", "pk")


def _instance_of(queue: Queue) -> CronInstance | None:
    """The schedule that starts what works for the queue: its consumer, or the relay."""
    if queue.direction == Queue.Direction.OUTBOUND and not sends(queue):
        return _relays().first()
    return CronInstance.objects.select_related("periodic_task").filter(queue=queue).first()


def broker(queue: Queue) -> Link:  # noqa: ARG001 - every link is asked in the same way
    """What carries every start from beat to the workers."""
    return celery_broker.link()


def beat(queue: Queue) -> Link:
    hearts = live_processes.alive("beat")
    if not hearts:
        text = f"No beat showed a heartbeat within {ALIVE.seconds} seconds."
        return broken("beat", text, "Start one: celery -A config beat")
    leader = next((heart for heart in hearts if heart.leads), None)
    if leader is None:
        text = f"{len(hearts)} beat(s) live, but none leads."
        return broken("beat", text, "Wait five seconds; if it stays so, restart beat.")
    overdue = _overdue(queue)
    if overdue is not None:
        return broken("beat", overdue, "Look at beat's log; restart it if it says nothing.")
    return good("beat", f"{leader.node} leads.")


def _overdue(queue: Queue) -> str | None:
    found = _instance_of(queue)
    if found is None or not found.active or found.last_scheduled_at is None:
        return None
    missed = upcoming(found.schedule(), found.last_scheduled_at, 1)
    if not missed or timezone.now() - missed[0] < _LATE:
        return None
    return f"{found.name} was due at {missed[0]:%H:%M:%S} UTC and nothing ticked."
