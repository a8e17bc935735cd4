"""The state of queues: one row each for the overview, partitions and history for its page."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from django.db.models import BooleanField, Case, ExpressionWrapper, F, Q, QuerySet, When
from django.db.models.functions import Greatest

from integration.counting import so_many
from integration.kafka.source import group_of
from integration.models import Gap, Queue, QueuePartition
from integration.policy.states import OPEN_SQL, ErrorState
from integration.selectors.delivering.senders import senders
from integration.selectors.masking.partitions import cover_places
from integration.selectors.masking.rules import any_rules
from integration.selectors.outbox.relaying import Sending, sending
from integration.selectors.queues.rescued import RescuedRow, rescued
from integration.selectors.queues.rows import QueueRow, queue_row
from integration.selectors.queues.status import LiveProcesses
from integration.selectors.queues.stops import stops, stuck
from integration.selectors.scope import EVERYTHING, Scope
from integration.selectors.setup import foreign
from integration.selectors.setup.retry_line import retry_line
from integration.store.sessions import database_now, fetch_all

# The dispatcher starts a worker within seconds, and the shipped schedule every ten.
UNREAD_AFTER: Final = timedelta(minutes=3)
# More failures of one queue and state are shown as "10,000+": counting on costs time. In a table
# of many queues it ends sooner.
COUNT_CAP: Final = 10_000
TABLE_CAP: Final = 1_000
GAPS_SHOWN: Final = 50
KEY_ORDER: Final = "kept: later messages of a key wait while an earlier one is open"

_COUNTED: Final = f"('{ErrorState.HOLD}'), ('{ErrorState.RETRY}'), ('{ErrorState.PARKED}')"
# By the partial index of open failures; VALUES and not the enum, so that the planner sees it.
_COUNTS: Final = f"""
    SELECT q.id, s.state, few.count
    FROM unnest(%s::bigint[]) q (id)
    CROSS JOIN (VALUES {_COUNTED}) s (state)
    CROSS JOIN LATERAL (SELECT count(*) FROM (
        SELECT 1 FROM integration_messageerror e
        WHERE e.queue_id = q.id AND e.state = s.state
          AND e.state IN {OPEN_SQL}
        LIMIT %s) found) few"""


@dataclass(frozen=True, slots=True)
class Switch:
    """One thing people can switch that stops the queue when it is off."""

    title: str
    what: str
    is_on: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueDetail:
    """Everything the page of one queue shows; `sending` is there for outbound ones alone."""

    queue: Queue
    row: QueueRow
    switches: tuple[Switch, ...]
    facts: tuple[tuple[str, str], ...]
    sending: Sending | None
    gaps: list[Gap]
    rescued: RescuedRow | None


def overview(
    live_processes: LiveProcesses | None = None, scope: Scope = EVERYTHING
) -> list[QueueRow]:
    """Every queue with its failures counted, the most urgent first, in at most six queries."""
    return counted(standing(live_processes, scope))


def standing(
    live_processes: LiveProcesses | None = None, scope: Scope = EVERYTHING
) -> list[QueueRow]:
    """List all queues as they stand, the most urgent first, failures not counted: five queries."""
    queues = Queue.objects.select_related("provider", "system").filter(scope.within("system"))
    return sorted(_rows(list(queues), live_processes), key=lambda row: (row.status.rank, row.name))


def counted(rows: Sequence[QueueRow], cap: int = TABLE_CAP) -> list[QueueRow]:
    """The same rows with their open failures, each state counted until it is above the cap."""
    if not rows:
        return []
    counts = {
        (queue_id, state): count
        for queue_id, state, count in fetch_all(_COUNTS, [[row.id for row in rows], cap + 1])
    }
    return [
        replace(
            row,
            held=counts.get((row.id, ErrorState.HOLD), 0),
            retrying=counts.get((row.id, ErrorState.RETRY), 0),
            parked=counts.get((row.id, ErrorState.PARKED), 0),
        )
        for row in rows
    ]


def detail(
    name: str, live_processes: LiveProcesses | None = None, scope: Scope = EVERYTHING
) -> QueueDetail | None:
    """One queue with its partitions, switches, gaps and the last decisions about it."""
    queue = (
        Queue.objects.select_related("provider", "system", "default_service", "error_queue")
        .filter(scope.within("system"), name=name)
        .first()
    )
    if queue is None:
        return None
    is_outbound = queue.direction == Queue.Direction.OUTBOUND
    [row] = counted(_rows([queue], live_processes), COUNT_CAP)
    gaps = Gap.objects.filter(partition__queue=queue).select_related("partition")
    return QueueDetail(
        queue=queue,
        row=row,
        switches=_switches(queue) if row.is_read else (),
        facts=_facts(queue, scope, sends=row.sends),
        sending=sending(queue) if is_outbound else None,
        gaps=list(gaps.annotate(size=F("to_offset") - F("from_offset"))[:GAPS_SHOWN]),
        rescued=rescued(queue) if any(p.may_have_rescued for p in row.partitions) else None,
    )


def names(scope: Scope = EVERYTHING, direction: str = "") -> list[str]:
    """The names of the queues, or of those of one direction, for a filter."""
    queues = Queue.objects.filter(scope.within("system"))
    if direction:
        queues = queues.filter(direction=direction)
    return list(queues.order_by("name").values_list("name", flat=True))


def id_of(name: str, scope: Scope = EVERYTHING) -> int | None:
    """The queue of this name, or None."""
    queues = Queue.objects.filter(scope.within("system"), name=name)
    return queues.values_list("pk", flat=True).first()


def partitions_of(name: str, scope: Scope = EVERYTHING) -> list[int]:
    """The partitions that a queue has a position in."""
    places = QueuePartition.objects.filter(scope.within("queue__system"), queue__name=name)
    return list(places.order_by("partition").values_list("partition", flat=True))


def by_id(queue_id: int) -> Queue:
    """The queue itself, for a check that needs all of it."""
    return Queue.objects.select_related("provider", "system", "default_service").get(pk=queue_id)


def _rows(queues: list[Queue], live_processes: LiveProcesses | None) -> list[QueueRow]:
    partitions = defaultdict(list)
    read = list(_partitions(queues))
    cover_places(read)
    for partition in read:
        partitions[partition.queue_id].append(partition)
    needy = stuck(queues)
    outbound = any(queue.direction == Queue.Direction.OUTBOUND for queue in queues)
    sending = senders() if outbound else frozenset()
    by_people = stops(queues)
    return [
        queue_row(
            queue,
            partitions[queue.pk],
            live_processes,
            stuck=needy.get(queue.pk),
            sends=queue.pk in sending,
            stop=by_people.get(queue.pk),
        )
        for queue in queues
    ]


def _partitions(queues: list[Queue]) -> QuerySet[QueuePartition]:
    """Judged by the database's clock, like everything that is written with it."""
    long_ago = database_now() - UNREAD_AFTER
    owned = Q(lease__released_at__isnull=True, lease__lease_until__gt=database_now())
    # GREATEST passes over what is not known; who never worked at all is not working now.
    # A rescue copies, and reads nothing for anybody.
    by_run = [
        Case(When(lease__rescues=False, then=at))
        for at in ("lease__taken_at", "lease__released_at")
    ]
    worked = Greatest("progressed_at", "state_since", *by_run)
    return (
        QueuePartition.objects.filter(queue__in=queues)
        .select_related("lease")
        .annotate(
            has_rules=any_rules(),
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
            is_early=ExpressionWrapper(
                Q(begins_after__isnull=False, producers_know_at__isnull=False)
                & Q(producers_know_at__gt=database_now()),
                output_field=BooleanField(),
            ),
        )
        .order_by("queue", "partition")
    )


def _switches(queue: Queue) -> tuple[Switch, ...]:
    """Every switch that can stop this queue, so that nobody has to guess which one is off."""
    every = [
        Switch("Queue switched on", queue.name, queue.enabled),
        Switch("Not paused", queue.pause_reason or "nobody paused it", not queue.paused),
    ]
    if queue.system is not None:
        every.append(Switch("External system switched on", queue.system.name, queue.system.enabled))
    if queue.default_service is not None:
        service = queue.default_service
        every.append(Switch("Default service switched on", service.interface, service.enabled))
    return tuple(every)


def _facts(queue: Queue, scope: Scope, *, sends: bool) -> tuple[tuple[str, str], ...]:
    named = _source(queue)
    if queue.direction == Queue.Direction.OUTBOUND:
        return (*named, ("Order", _order(queue)), *(_when_it_fails(queue) if sends else ()))
    facts = [
        *named,
        ("Kind", queue.get_kind_display()),
        *(() if queue.provider.is_jms else (("Began at", queue.get_start_from_display()),)),
        *_when_it_fails(queue),
    ]
    if queue.error_queue is not None:
        facts.append(("Error queue", foreign.name_of(queue.error_queue, scope)))
    if queue.keeps_keys_in_order:
        facts.append(("Order within a key", KEY_ORDER))
        where = f"the value at {queue.order_path} in the document"
        facts.append(("Key of its order", where if queue.order_path else "the record key"))
    if queue.most_workers != 1 and not queue.provider.is_jms:
        facts.append(("Workers", f"up to {queue.most_workers or 'one for each partition'}"))
    if queue.joins_group:
        protocol = queue.get_group_protocol_display()
        facts.append(("Consumer group", f"{group_of(queue)}. Protocol: {protocol}"))
    if queue.is_shared and queue.concurrency > 1:
        facts.append(("Concurrency", f"up to {queue.concurrency} handler calls of a partition"))
    return tuple(facts)


def _source(queue: Queue) -> tuple[tuple[str, str], ...]:
    """Tell where its messages are, in the words of what has them."""
    if not queue.provider.is_jms:
        return (("Provider", queue.provider.name), ("Topic", queue.topic))
    what = "JMS topic" if queue.subscription else "JMS queue"
    own = (("Subscription", queue.subscription), ("Selector", queue.selector))
    return (
        ("JMS broker", queue.provider.name),
        (what, queue.topic),
        *((title, text) for title, text in own if text),
    )


def _order(queue: Queue) -> str:
    if queue.is_sequential:
        return "kept: one at a time"
    concurrency = (
        f"up to {queue.concurrency} at a time" if queue.concurrency > 1 else "one at a time"
    )
    if queue.ordering == Queue.Ordering.KEY:
        return f"kept within a key, {concurrency}"
    return f"not kept between keys, {concurrency}"


def _rescue(queue: Queue) -> str:
    if queue.provider.is_jms:
        return "not needed: the broker keeps what was not accepted"
    return f"up to {queue.rescue_limit_mb:,} MiB" if queue.rescue else "off"


def _when_it_fails(queue: Queue) -> tuple[tuple[str, str], ...]:
    """The names are those of the queue's form."""
    in_a_row = f"{so_many(queue.failure_threshold, 'failure')} of the same cause in a row"
    return (
        ("Retries", retry_line(queue.retry_policy()).words),
        ("Most open failures", f"{queue.max_open_errors:,}"),
        ("Failure threshold", in_a_row if queue.failure_threshold else "never"),
        ("Rescue", _rescue(queue)),
        ("Batch", so_many(queue.batch_size, "message")),
    )
