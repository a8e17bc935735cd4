"""Look-ups of the set-up of queues: a queue by its name, what a new one begins with, choices."""

from collections.abc import Mapping
from typing import Any, Final

from django.db.models import QuerySet

from integration.amqp.positions import identity
from integration.kafka import admin
from integration.models import Endpoint, ExternalSystem, Provider, Queue
from integration.selectors.delivering.senders import AT_KAFKA
from integration.selectors.scope import Scope
from integration.selectors.setup.takers import services
from integration.values import TopicFacts

# No key of a row has more digits.
NUMBER_LENGTH: Final = 19


def queue_named(name: str, scope: Scope) -> Queue | None:
    """The queue with what its pages show of it; None for what this scope may not know of."""
    queues = Queue.objects.select_related(
        "provider", "system", "default_service__structure", "error_queue", "endpoint__system"
    )
    return queues.filter(scope.within("system"), name=name).first() if name else None


def copy_of(name: str, scope: Scope) -> Queue | None:
    """An unsaved queue with everything of the named one but its name, topic, start and switches."""
    source = queue_named(name, scope)
    if source is None:
        return None
    source.pk = None
    source.name = source.topic = source.start_from = source.start_group = ""
    source.start_time = None
    source.enabled, source.paused, source.pause_reason = True, False, ""
    if source.direction == Queue.Direction.INBOUND:
        # They have no effect there, and are refused of a new one.
        source.ordering, source.endpoint = Queue.Ordering.NONE, None
    return source


def choices(scope: Scope, queue: Queue) -> dict[str, QuerySet[Any]]:
    """Return what can be chosen in the form of `queue`, by field."""
    errors = Queue.objects.filter(scope.within("system"), is_error_queue=True)
    errors = errors.filter(AT_KAFKA)
    return {
        "system": ExternalSystem.objects.filter(scope.within("pk")),
        "provider": Provider.objects.all(),
        "default_service": services(scope),
        "error_queue": errors.exclude(pk=queue.pk),
        "endpoint": Endpoint.objects.filter(scope.within("system")).select_related("system"),
    }


def is_at_jms(provider: object) -> bool:
    """Return whether this number, as it was entered, is that of a JMS broker."""
    number = str(provider or "")
    if not (number.isascii() and number.isdigit() and len(number) < NUMBER_LENGTH):
        return False
    return Provider.objects.filter(pk=number, kind=Provider.Kind.JMS).exists()


def begun(numbers: Mapping[str, int | None], scope: Scope) -> Queue:
    """An unsaved queue with what these numbers choose, by field."""
    queue = Queue()
    offered = choices(scope, queue)
    for field, number in numbers.items():
        if number is not None and offered[field].filter(pk=number).exists():
            setattr(queue, f"{field}_id", number)
    if queue.endpoint is not None and queue.system_id is None:
        queue.system_id = queue.endpoint.system_id
    return queue


def is_foreign(queue: Queue, scope: Scope, *, is_made: bool) -> bool:
    """Return whether the queue's topic is not for limited people to read or to write.

    That is so where a queue which this scope may not know of has it, in either direction. Kafka
    does not tell whose a topic is that no queue has: its name has to begin with that of the
    queue's system and a dot, hyphen or underscore, unless it `is_made` along with the queue.
    """
    if scope.is_whole:
        return False
    having = Queue.objects.filter(provider=queue.provider_id, topic=queue.topic)
    if having.exclude(scope.within("system")).exists():
        return True
    if is_made or having.exists():
        return False
    named = queue.system.name if queue.system is not None else ""
    return not (named and queue.topic.startswith(tuple(f"{named}{sign}" for sign in ".-_")))


def readers(scope: Scope) -> QuerySet[Queue]:
    """The inbound queues of this scope that a message for a service may be sent to."""
    queues = Queue.objects.filter(
        scope.within("system"), AT_KAFKA, direction=Queue.Direction.INBOUND
    )
    return queues.filter(is_error_queue=False).order_by("name")


def topic_facts_now(queue_id: int) -> TopicFacts | None:
    """Ask the broker about the queue's topic right now; None when the topic is not there.

    A JMS broker has nothing to say: there it goes on where it stands. Raises BrokerUnreachableError
    after 5 s.
    """
    queue = Queue.objects.select_related("provider").get(pk=queue_id)
    if queue.provider.is_jms:
        at = dict(queue.partitions.values_list("partition", "next_offset"))
        return TopicFacts(identity(queue), at, at)
    return admin.topic_facts(queue.provider, queue.topic)
