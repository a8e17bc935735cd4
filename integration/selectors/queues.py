"""How the queues stand: one row a queue for the overview, partitions and history for its page."""

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from django.db.models import BooleanField, Count, ExpressionWrapper, Q, QuerySet
from django.db.models.functions import Greatest

from integration.clock import database_now
from integration.delivery.policy.states import OPEN
from integration.models import Gap, MessageError, Queue, QueueChange, QueuePartition
from integration.selectors.outbox import Sending, sending
from integration.selectors.queue_rows import QueueRow, queue_row
from integration.selectors.status import Crew, Status
from integration.selectors.stuck import stuck

# The dispatcher starts a worker within seconds, and the shipped schedule every ten.
UNREAD_AFTER: Final = timedelta(minutes=3)


@dataclass(frozen=True, slots=True, kw_only=True)
class GapRow:
    """Offsets passed or about to be passed untried."""

    id: UUID
    partition: int
    from_offset: int
    to_offset: int
    reason: str
    found_at: datetime
    acknowledged_at: datetime | None
    acknowledged_by: str

    @property
    def size(self) -> int:
        return self.to_offset - self.from_offset


@dataclass(frozen=True, slots=True)
class Switch:
    """One thing people can switch that stops the queue when it is off."""

    title: str
    what: str
    is_on: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueDetail:
    """Everything the page of one queue shows; `sending` is there for outbound ones alone."""

    row: QueueRow
    switches: tuple[Switch, ...]
    facts: tuple[tuple[str, str], ...]
    sending: Sending | None
    gaps: tuple[GapRow, ...]
    changes: tuple[QueueChange, ...]


def overview(crew: Crew | None = None) -> list[QueueRow]:
    """Every queue, the most urgent first, in five queries however many there are."""
    queues = list(Queue.objects.select_related("provider", "system"))
    rows = _rows(queues, crew)
    order = list(Status)
    return sorted(rows, key=lambda row: (order.index(row.status), row.name))


def detail(name: str, crew: Crew | None = None) -> QueueDetail | None:
    """One queue with its partitions, switches, gaps and the last decisions about it."""
    queue = (
        Queue.objects.select_related("provider", "system", "default_service", "error_queue")
        .filter(name=name)
        .first()
    )
    if queue is None:
        return None
    is_outbound = queue.direction == Queue.Direction.OUTBOUND
    row = _rows([queue], crew)[0]
    gaps = Gap.objects.filter(partition__queue=queue).select_related("partition")[:50]
    return QueueDetail(
        row=row,
        switches=() if is_outbound else _switches(queue),
        facts=_facts(queue),
        sending=sending(queue) if is_outbound else None,
        gaps=tuple(_gap(gap) for gap in gaps),
        changes=tuple(queue.changes.all()[:20]),
    )


def names() -> list[str]:
    """Every queue's name, for a filter."""
    return list(Queue.objects.values_list("name", flat=True))


def id_of(name: str) -> int | None:
    """The queue of this name, or None."""
    return Queue.objects.filter(name=name).values_list("pk", flat=True).first()


def by_id(queue_id: int) -> Queue:
    """The queue itself, for a check that needs all of it."""
    return Queue.objects.select_related("provider", "system", "default_service").get(pk=queue_id)


def _rows(queues: list[Queue], crew: Crew | None) -> list[QueueRow]:
    partitions = defaultdict(list)
    for partition in _partitions(queues):
        partitions[partition.queue_id].append(partition)
    counts: dict[int, dict[str, int]] = defaultdict(dict)
    found = (
        MessageError.objects.filter(queue__in=queues, state__in=OPEN)
        .order_by()
        .values_list("queue", "state")
        .annotate(count=Count("pk"))
    )
    for queue_id, state, count in found:
        counts[queue_id][state] = count
    needy = stuck(queues)
    return [
        queue_row(queue, partitions[queue.pk], counts[queue.pk], crew, stuck=needy.get(queue.pk))
        for queue in queues
    ]


def _partitions(queues: list[Queue]) -> QuerySet[QueuePartition]:
    """Judged by the database's clock, like everything that is written with it."""
    long_ago = database_now() - UNREAD_AFTER
    owned = Q(lease__released_at__isnull=True, lease__lease_until__gt=database_now())
    # GREATEST passes over what is not known; who never worked at all is not working now.
    worked = Greatest("progressed_at", "state_since", "lease__taken_at", "lease__released_at")
    return (
        QueuePartition.objects.filter(queue__in=queues)
        .select_related("lease")
        .annotate(
            is_owned=ExpressionWrapper(owned, output_field=BooleanField()),
            worked_at=worked,
            is_unread=ExpressionWrapper(
                Q(worked_at__isnull=True) | Q(worked_at__lt=long_ago),
                output_field=BooleanField(),
            ),
            is_overdue=ExpressionWrapper(
                Q(resume_at__isnull=False) & Q(resume_at__lt=long_ago),
                output_field=BooleanField(),
            ),
        )
        .order_by("queue", "partition")
    )


def _gap(gap: Gap) -> GapRow:
    return GapRow(
        id=gap.pk,
        partition=gap.partition.partition,
        from_offset=gap.from_offset,
        to_offset=gap.to_offset,
        reason=gap.reason,
        found_at=gap.found_at,
        acknowledged_at=gap.acknowledged_at,
        acknowledged_by=gap.acknowledged_by,
    )


def _switches(queue: Queue) -> tuple[Switch, ...]:
    """Every switch that can stop this queue, so that nobody has to guess which one is off."""
    found = [
        Switch("Queue", queue.name, queue.enabled),
        Switch("Not paused", queue.pause_reason or "nobody paused it", not queue.paused),
    ]
    if queue.system is not None:
        found.append(Switch("External system", queue.system.name, queue.system.enabled))
    if queue.default_service is not None:
        service = queue.default_service
        found.append(Switch("Default service", service.interface, service.enabled))
    return tuple(found)


def _facts(queue: Queue) -> tuple[tuple[str, str], ...]:
    if queue.direction == Queue.Direction.OUTBOUND:
        order = "kept: one at a time" if queue.is_sequential else "not kept between keys"
        return (("Provider", queue.provider.name), ("Topic", queue.topic), ("Order", order))
    tries = "unlimited" if queue.unlimited_retries else f"{queue.max_retries}"
    facts = [
        ("Provider", queue.provider.name),
        ("Topic", queue.topic),
        ("Kind", queue.get_kind_display()),
        ("Began at", queue.get_start_from_display()),
        ("Retries after the first try", f"{tries}, {queue.backoff}"),
        ("Brake", f"at {queue.max_open_errors:,} open failures"),
        ("Batch", f"{queue.batch_size:,} messages"),
    ]
    if queue.error_queue is not None:
        facts.append(("Error queue", queue.error_queue.name))
    return tuple(facts)
