"""Making and changing a queue: its topics, its row, its first position, one row of audit."""

from dataclasses import dataclass

from django.db import transaction

from integration import registration
from integration.actions import configuration
from integration.actions.configuration import Author
from integration.actions.topics import create_topic
from integration.models import ChannelTarget, Queue
from integration.selectors.delivering.senders import sends

NAME_LENGTH = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Making:
    """What is made along with a queue.

    `partitions` None = the topic is there already and is adopted. `error_queue` is one that is
    not stored yet; it gets a topic of its own.
    """

    partitions: int | None = None
    error_queue: Queue | None = None


def error_queue_for(queue: Queue, *, strict: bool) -> Queue:
    """An error queue named after `queue`, not stored yet: inbound, sequential, its own topic."""
    ending = "-errors"
    return Queue(
        name=queue.name[: NAME_LENGTH - len(ending)] + ending,
        description=f"What {queue.name} gave up, for people"[:200],
        provider=queue.provider,
        topic=f"{queue.topic}.errors",
        direction=Queue.Direction.INBOUND,
        kind=Queue.Kind.SEQUENTIAL,
        system=queue.system,
        start_from=Queue.StartFrom.BEGINNING,
        is_error_queue=True,
        strict_order=strict,
        retention_seconds=queue.retention_seconds,
    )


def create(queue: Queue, author: Author, making: Making) -> None:
    """Make the topics that are missing, then store everything in one transaction.

    What is stored: the error queue to be made, the queue, their first positions and one row of
    audit for each queue. A cluster cannot take a topic back: if storing fails, the new topics
    stay and can be adopted. Raises IntegrationError (TopicTakenError, TopicRefusedError, a broker
    that cannot be asked) and ValidationError from the registration.
    """
    errors = making.error_queue
    if errors is not None:
        _make_topic(errors, 1)
    if making.partitions is not None:
        _make_topic(queue, making.partitions)
    with transaction.atomic():
        if errors is not None:
            _store(errors, author)
            queue.error_queue = errors
        _store(queue, author)


def change(queue: Queue, author: Author, making: Making, *, seen: str) -> bool:
    """Store a changed queue, with an error queue to be made for it; False when nothing differs.

    Raises ChangedMeanwhileError when the stored row is not the one that `seen` is the stamp of,
    and what `create` raises for the error queue.
    """
    errors = making.error_queue
    if errors is not None:
        _make_topic(errors, 1)
    with transaction.atomic():
        if errors is not None:
            _store(errors, author)
            queue.error_queue = errors
        made = configuration.save(queue, author, seen=seen)
        if made is not None and _is_read(queue):
            registration.register(queue)
    return made is not None


def save_target(target: ChannelTarget, author: Author, *, seen: str | None = None) -> bool:
    """Store a target; its queue gets its positions where the target makes it one that sends.

    In one transaction; False when nothing differs. Raises ChangedMeanwhileError, and what
    registration raises: IntegrationError, ValidationError.
    """
    with transaction.atomic():
        made = configuration.save(target, author, seen=seen)
        if made is not None and sends(target.queue):
            registration.register(target.queue)
    return made is not None


def _make_topic(queue: Queue, partitions: int) -> None:
    create_topic(
        queue.provider,
        queue.topic,
        partitions=partitions,
        retention_seconds=queue.retention_seconds,
    )


def _store(queue: Queue, author: Author) -> None:
    configuration.save(queue, author)
    if _is_read(queue):
        registration.register(queue)


def _is_read(queue: Queue) -> bool:
    """Whether it has a position here: inbound, or delivered to an endpoint."""
    return queue.direction == Queue.Direction.INBOUND or sends(queue)
