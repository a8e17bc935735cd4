"""Where a posted message goes: its service, and the one inbound queue that takes it."""

from dataclasses import dataclass
from typing import Final

from integration.http_api.problems import AmbiguousQueueError, NoQueueError, NoSuchServiceError
from integration.http_api.remembered import Remembered
from integration.models import EnterpriseService, Queue


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """An inbound queue as the outbox needs it; `strict` is its id when its order must be kept."""

    queue_id: int
    topic: str
    provider_id: int
    strict: int | None


@dataclass(frozen=True, slots=True)
class _Found:
    """What the configuration says about one system and service: the queues that could take it."""

    route: Route | None
    queues: tuple[str, ...]


def route_of(system_id: int, system: str, service: str) -> Route:
    """The queue of that system whose default service it is, else the system's only inbound one.

    What is switched off or paused still takes messages: they wait. Raises NoSuchServiceError,
    NoQueueError and AmbiguousQueueError.
    """
    found = _routes.get((system_id, service))
    if found is None:
        raise NoSuchServiceError(service)
    if found.route is not None:
        return found.route
    if not found.queues:
        raise NoQueueError(system)
    raise AmbiguousQueueError(system, service, list(found.queues))


def _read(asked: tuple[int, str]) -> _Found | None:
    system_id, name = asked
    service = EnterpriseService.objects.filter(interface=name).only("pk").first()
    if service is None:
        return None
    queues = list(
        Queue.objects.filter(
            system_id=system_id, direction=Queue.Direction.INBOUND, is_error_queue=False
        ).order_by("name")
    )
    takers = [q for q in queues if q.default_service_id == service.pk] or queues
    names = tuple(queue.name for queue in takers)
    return _Found(_route(takers[0]) if len(takers) == 1 else None, names)


def _route(queue: Queue) -> Route:
    return Route(
        queue_id=queue.pk,
        topic=queue.topic,
        provider_id=queue.provider_id,
        strict=queue.pk if queue.is_sequential else None,
    )


_routes: Final[Remembered[tuple[int, str], _Found]] = Remembered(_read)


def forget() -> None:
    """Ask the database again at the next request; other processes do within a second."""
    _routes.forget()
