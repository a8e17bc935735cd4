"""Taking a queue away: only when nothing is lost, with a list of what goes along."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Final

from django.db.models import Q, QuerySet

from integration.actions import configuration
from integration.actions.configuration import Author
from integration.actions.errors import QueueMismatchError, ReasonMissingError
from integration.actions.transaction import short_transaction
from integration.counting import so_many
from integration.errors import IntegrationError
from integration.models import (
    Gap,
    MessageError,
    Operation,
    OutboxRow,
    PartitionLease,
    Queue,
    QueuePartition,
)
from integration.policy.states import OPEN, OperationState, OutboxState
from integration.selectors.queues.rescued import rescued
from integration.store import decisions
from integration.store.sessions import database_now

# More closed failures than this are left to the cleanup first: a person's click stays short.
MOST_CLOSED: Final = 10_000


class QueueNeededError(IntegrationError):
    """Removing the queue would lose something, or somebody works on it."""

    code: ClassVar[str] = "QUEUE_NEEDED"

    def __init__(self, *, queue: str, why: tuple[str, ...]) -> None:
        super().__init__(
            f"{queue} was not deleted. {' '.join(why)}", next_step="Nothing was changed."
        )
        self.why = why


class NameMismatchError(IntegrationError):
    """The name typed as a confirmation is not the name of what would be deleted."""

    code: ClassVar[str] = "NAME_MISMATCH"

    def __init__(self, *, wanted: str) -> None:
        super().__init__(
            f"The name typed is not {wanted}, so nothing was deleted.",
            next_step="Type the name exactly as it is shown.",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaving:
    """Obstacles to a removal, and what would go and stay, as sentences."""

    refusals: tuple[str, ...]
    goes: tuple[str, ...]
    stays: tuple[str, ...]


def leaving(queue: Queue) -> Leaving:
    """Look at everything that hangs on the queue, in a fixed number of bounded queries."""
    return Leaving(
        refusals=tuple(_refusals(queue)), goes=tuple(_goes(queue)), stays=tuple(_stays(queue))
    )


def remove(queue_id: int, author: Author, *, typed: str) -> None:
    """Delete the queue with its positions, closed failures, samples and cron instance.

    Raises NameMismatchError, ReasonMissingError, QueueNeededError, QueueMismatchError when it is
    gone already, RowBusyError.
    """
    if not author.reason.strip():
        raise ReasonMissingError(action="delete a queue")
    with short_transaction():
        queue = Queue.objects.select_for_update(of=("self",)).filter(pk=queue_id).first()
        if queue is None:
            raise QueueMismatchError("Somebody else has deleted the queue already.")
        if typed.strip() != queue.name:
            raise NameMismatchError(wanted=queue.name)
        _keep_closed(queue)
        refusals = tuple(_refusals(queue))
        if refusals:
            raise QueueNeededError(queue=queue.name, why=refusals)
        decisions.keep(list(queue.errors.values_list("pk", flat=True)))
        queue.errors.all().delete()
        queue.partitions.all().delete()
        configuration.delete(queue, author)


def _keep_closed(queue: Queue) -> None:
    """Let nobody restore a deleted failure between the look at them and their removal.

    New ones need the queue's row, which is locked already.
    """
    locked = queue.errors.select_for_update().order_by("pk").values_list("pk", flat=True)
    list(locked[: MOST_CLOSED + 1])


def _refusals(queue: Queue) -> list[str]:
    words = []
    if queue.direction == Queue.Direction.INBOUND and queue.enabled:
        words.append("It is switched on: switch it off first, so that nothing reads it meanwhile.")
    if _is_worked_on(queue):
        words.append("A worker is still at work on it: wait until its batch has ended.")
    words += _would_be_lost(queue)
    feeding = [row.name for row in queue.feeding_queues.all()[:5]]
    if feeding:
        words.append(f"It is the error queue of {', '.join(feeding)}: give them another one first.")
    masking = [rule.name for rule in queue.masking_rules.all()[:5]]
    if masking:
        words.append(f"Masking rules are limited to it: delete {', '.join(masking)} first.")
    if waiting := waiting_for(queue):
        words.append(waiting)
    unfinished = (OperationState.RUNNING, OperationState.PAUSED, OperationState.PLANNED)
    if Operation.objects.filter(state__in=unfinished, items__error__queue=queue).exists():
        words.append("A bulk operation over its failures has not ended: let it end or cancel it.")
    if _closed(queue) > MOST_CLOSED:
        words.append(
            f"It has more than {MOST_CLOSED:,} closed failures: let the errors cleanup remove "
            "them first."
        )
    return words


def _would_be_lost(queue: Queue) -> Iterator[str]:
    """Yield what stands nowhere but in the database."""
    if queue.errors.filter(state__in=[state.value for state in OPEN]).exists():
        yield "It has open failures, whose messages would be lost: resolve or delete them."
    saved = rescued(queue)
    if saved is not None and saved.records:
        yield (
            f"{so_many(saved.records, 'rescued message')} of it may stand nowhere but in the "
            "database, untried: let the queue read them, or skip them."
        )


def waiting_for(queue: Queue) -> str:
    """Tell what still waits in the outbox for this queue, as a sentence; empty if nothing does."""
    if not _unsent(queue).exists():
        return ""
    return "Messages for it wait in the outbox: let them be sent, or give them up there."


def _is_worked_on(queue: Queue) -> bool:
    held = Q(released_at__isnull=True, lease_until__gt=database_now())
    return PartitionLease.objects.filter(held, partition__queue=queue).exists()


def _unsent(queue: Queue) -> QuerySet[OutboxRow]:
    """Rows on their way: for the topic of an outbound queue, or in this queue's strict order."""
    of_queue = Q(strict_queue=queue.pk)
    if queue.direction == Queue.Direction.OUTBOUND:
        of_queue |= Q(provider=queue.provider_id, topic=queue.topic)
    waiting = Q(state=OutboxState.PENDING) | Q(state=OutboxState.STAMPED)
    return OutboxRow.objects.filter(of_queue, waiting | Q(state=OutboxState.DEAD))


def _closed(queue: Queue) -> int:
    """Counted to one above the most that is taken along."""
    return MessageError.objects.filter(queue=queue).order_by()[: MOST_CLOSED + 1].count()


def _goes(queue: Queue) -> list[str]:
    words = []
    places = list(QueuePartition.objects.filter(queue=queue))
    if places:
        where = ", ".join(f"{p.partition} at {p.next_offset:,}" for p in places[:8])
        words.append(f"Its positions: partition {where}.")
        unread = sum(place.lag or 0 for place in places)
        if unread:
            where = "at the broker" if queue.provider.is_jms else "in Kafka until it expires"
            words.append(
                f"{so_many(unread, 'message waits', 'messages wait')} unread in {queue.topic}. "
                f"What waits stays {where}, and nobody reads it here."
            )
    closed = _closed(queue)
    if closed:
        words.append(f"{so_many(closed, 'closed failure')} with payloads and attempts.")
    gaps = Gap.objects.filter(partition__queue=queue).count()
    if gaps:
        words.append(f"{so_many(gaps, 'recorded gap')}.")
    if queue.direction == Queue.Direction.INBOUND:
        words.append("Its cron instance with the history of its runs, and its charts.")
    if queue.dedupe:
        words.append("The memory of message ids that were seen: a repeat would be applied again.")
    return words


def _stays(queue: Queue) -> list[str]:
    source = f"The topic {queue.topic} with its messages: Sluice deletes nothing in Kafka."
    if queue.provider.is_jms:
        source = f"The JMS address {queue.topic} with what waits there: nothing is deleted there."
    if queue.subscription:
        source += f" Have the durable subscription {queue.subscription} removed at the broker."
    return [
        source,
        "What was applied from it, and the tracking of its messages until history cleanup.",
        "What people decided about it and about its failures.",
        "The audit of every change, this one included.",
    ]
