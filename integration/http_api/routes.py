"""The route of a posted message: its service, and the one inbound queue that takes it."""

from typing import Final

from django.db.models import QuerySet

from integration.http_api.errors import (
    AmbiguousQueueError,
    JmsQueueError,
    NoQueueError,
    NoSuchServiceError,
)
from integration.http_api.remembered import Remembered
from integration.models import EnterpriseService, Queue


def queue_for(system_id: int, system: str, service: str) -> Queue:
    """The inbound queue of that system that takes the service.

    It is the one whose default service it is, else the one without a default service, else the
    only one. What is switched off or paused still takes messages: they wait. Raises
    NoSuchServiceError, NoQueueError, JmsQueueError and AmbiguousQueueError.
    """
    queues = _queues.get((system_id, service))
    if queues is None:
        raise NoSuchServiceError(service=service)
    if not queues:
        raise NoQueueError(system=system)
    if all(queue.provider.is_jms for queue in queues):
        raise JmsQueueError(system=system, queue=queues[0].name)
    if len(queues) > 1:
        names = ", ".join(queue.name for queue in queues)
        raise AmbiguousQueueError(system=system, service=service, queues=names)
    return queues[0]


def shared(system_id: int) -> list[str]:
    """The names of the queues that take what no other queue of the system is the default for.

    More than one of them take no posts.
    """
    queues = _inbound(system_id).filter(default_service=None)
    return [queue.name for queue in queues if not queue.provider.is_jms]


def _read(key: tuple[int, str]) -> list[Queue] | None:
    """The queues that could take it, by name; None where there is no such service."""
    system_id, name = key
    service = EnterpriseService.objects.filter(interface=name).only("pk").first()
    if service is None:
        return None
    every = list(_inbound(system_id))
    # A post is written to a topic: where there is one, queues of JMS brokers do not count.
    queues = [queue for queue in every if not queue.provider.is_jms] or every
    own = [queue for queue in queues if queue.default_service_id == service.pk]
    shared = [queue for queue in queues if queue.default_service_id is None]
    return own or (shared if len(shared) == 1 else queues)


def _inbound(system_id: int) -> QuerySet[Queue]:
    return (
        Queue.objects.filter(
            system_id=system_id, direction=Queue.Direction.INBOUND, is_error_queue=False
        )
        .select_related("provider")
        .order_by("name")
    )


_queues: Final[Remembered[tuple[int, str], list[Queue]]] = Remembered(_read)
