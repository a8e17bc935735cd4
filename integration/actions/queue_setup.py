"""Making and changing a queue: its topics, its row, its first position, one row of audit."""

import re
import time
from dataclasses import dataclass
from typing import ClassVar, Final

from django.core.exceptions import ValidationError
from django.db import transaction

from integration import registration
from integration.actions import configuration
from integration.actions.configuration import Author
from integration.errors import IntegrationError
from integration.kafka import admin
from integration.kafka.errors import TopicUnknownError
from integration.models import ChannelTarget, Queue
from integration.selectors.delivering.senders import sends

# A new topic needs a moment until its partitions have leaders.
READY_SECONDS: Final = 20.0
PAUSE_SECONDS: Final = 0.05
MOST_PARTITIONS: Final = 1_000
# Kafka's own rule for names.
LEGAL: Final = re.compile(r"(?!\.{1,2}\Z)[a-zA-Z0-9._-]{1,249}", re.ASCII)
NAME_LENGTH: Final = 60


class TopicTakenError(IntegrationError):
    """A topic to be created exists already: it may hold somebody's messages."""

    code: ClassVar[str] = "TOPIC_TAKEN"

    def __init__(self, *, topic: str) -> None:
        super().__init__(
            f"The topic {topic} exists already.",
            next_step="Adopt it, after a look at what is in it, or choose another name.",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Making:
    """Things that are made along with a queue.

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


def judge(queue: Queue, making: Making) -> None:
    """Raises ValidationError where the queue cannot be stored like this; asks the broker."""
    is_jms = queue.provider.is_jms
    if making.partitions is not None and not is_jms:
        _check_new(queue, making.partitions)
    elif not queue.pk and not is_jms:
        _follow_retention(queue)
    registration.check(queue, has_topic=making.partitions is None)
    if making.error_queue is not None:
        _check_error_queue(making.error_queue)


def _check_new(queue: Queue, partitions: int) -> None:
    """Raises ValidationError where the queue's topic cannot be created with these partitions."""
    if not _is_legal(queue.topic):
        raise ValidationError(
            {"topic": "Kafka takes letters, digits, dot, - and _ only, 249 at most."}
        )
    if queue.needs_one_partition and partitions != 1:
        raise ValidationError(
            {"partitions": "This order needs exactly one: there is no order between two."}
        )
    _refuse_taken(queue, "topic")


def _check_error_queue(errors: Queue) -> None:
    """Raises ValidationError where an error queue cannot be made along with its queue."""
    if errors.provider.is_jms:
        text = "Failures are copied to a topic of Kafka: make an error queue there, and choose it."
        raise ValidationError({"create_error_queue": text})
    if Queue.objects.filter(name=errors.name).exists():
        raise ValidationError(
            {"create_error_queue": f"There is a queue {errors.name} already: choose it."}
        )
    if not _is_legal(errors.topic):
        raise ValidationError({"create_error_queue": f"{errors.topic} is too long a name."})
    _refuse_taken(errors, "create_error_queue")


def _follow_retention(queue: Queue) -> None:
    """An adopted topic's own time limit is the queue's."""
    try:
        topic = admin.describe(queue.provider, queue.topic)
    except IntegrationError:
        # registration.check asks again, and shows it at its field.
        return
    if topic.deletes_old and topic.retention_ms is not None:
        queue.retention_seconds = max(1, topic.retention_ms // 1_000)


def _refuse_taken(queue: Queue, field: str) -> None:
    try:
        is_there = admin.topic_facts(queue.provider, queue.topic) is not None
    except IntegrationError as e:
        raise ValidationError({"provider": str(e)}) from e
    if is_there:
        raise ValidationError({field: str(TopicTakenError(topic=queue.topic))})


def _is_legal(topic: str) -> bool:
    """Return whether Kafka takes the name."""
    return LEGAL.fullmatch(topic) is not None


def store(queue: Queue, author: Author, making: Making, *, seen: str | None = None) -> bool:
    """Make the topics that are missing, then store everything in one transaction.

    What is stored: the error queue to be made, the queue, their first positions and one row of
    audit for each queue; False when nothing of the queue differs. A cluster cannot take a topic
    back: if storing fails, the new topics stay and can be adopted. Raises IntegrationError
    (TopicTakenError, TopicRefusedError, a broker that cannot be asked), ValidationError from the
    registration, and ChangedMeanwhileError when the stored row is not the one that `seen` is the
    stamp of.
    """
    errors = making.error_queue
    if errors is not None:
        _make_topic(errors, 1)
    if making.partitions is not None and not queue.provider.is_jms:
        _make_topic(queue, making.partitions)
    with transaction.atomic():
        if errors is not None:
            _store(errors, author)
            queue.error_queue = errors
        return _store(queue, author, seen)


def save_target(target: ChannelTarget, author: Author, *, seen: str | None = None) -> bool:
    """Store a target; its queue gets its positions where the target makes it one that sends.

    In one transaction; False when nothing differs. Raises ChangedMeanwhileError, and what
    registration raises: IntegrationError, ValidationError.
    """
    with transaction.atomic():
        change = configuration.save(target, author, seen=seen)
        if change is not None and sends(target.queue):
            registration.register(target.queue)
    return change is not None


def _make_topic(queue: Queue, partitions: int) -> None:
    """Create the topic and wait until it answers.

    Raises TopicTakenError, TopicRefusedError, BrokerUnreachableError, ProviderUnusableError,
    and TopicUnknownError when the cluster does not show it within 20 s.
    """
    provider, topic = queue.provider, queue.topic
    settings = {"retention.ms": str(queue.retention_seconds * 1_000)}
    if not admin.create_topic(provider, topic, partitions=partitions, settings=settings):
        raise TopicTakenError(topic=topic)
    deadline = time.monotonic() + READY_SECONDS
    while True:
        try:
            admin.describe(provider, topic)
            return
        except TopicUnknownError:
            if time.monotonic() > deadline:
                raise
            time.sleep(PAUSE_SECONDS)


def _store(queue: Queue, author: Author, seen: str | None = None) -> bool:
    change = configuration.save(queue, author, seen=seen)
    if change is not None and _is_read(queue):
        registration.register(queue)
    return change is not None


def _is_read(queue: Queue) -> bool:
    """Return whether it has a position here: inbound, or delivered to an endpoint."""
    return queue.direction == Queue.Direction.INBOUND or sends(queue)
