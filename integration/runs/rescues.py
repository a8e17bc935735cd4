"""A rescue with its real adapters: what of a topic is in danger, and its copying."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from django.db import close_old_connections

from integration.delivery.owned import Owned
from integration.delivery.rescuing import (
    PIECE_RECORDS,
    RescueContext,
    RescueReport,
    RescueStep,
    rescue,
)
from integration.kafka import admin
from integration.kafka.looks import TopicLook
from integration.kafka.source import average_bytes, open_source
from integration.models import Queue, QueuePartition
from integration.policy.rescue import (
    MARGIN_SHARE,
    MOST_MARGIN_SECONDS,
    first_outside,
    margin_seconds,
    outgrown_before,
)
from integration.policy.states import PartitionState
from integration.runs.branches import settle_left
from integration.store import rescues
from integration.store.partition_manager import DatabasePartitionManager
from integration.store.sessions import execute, fetch_all
from integration.worker import worker_name

# A run that works on the queue gives way between two batches; for longer ones there is the next
# rescue.
CLAIM_SECONDS: Final = 10.0
CLAIM_EVERY_SECONDS: Final = 0.02
_WANT: Final = "UPDATE integration_queue SET rescue_wanted_at = clock_timestamp() WHERE id = %s"
_WANT_NO_MORE: Final = "UPDATE integration_queue SET rescue_wanted_at = NULL WHERE id = %s"
_NOW: Final = "SELECT extract(epoch FROM clock_timestamp())::float8"


@dataclass(frozen=True, slots=True)
class Margin:
    """How soon before it may expire a record is rescued: a share of what is kept, bounded."""

    share: float = MARGIN_SHARE
    most_seconds: float = MOST_MARGIN_SECONDS


@dataclass(slots=True)
class Rescued:
    """What came of it. `busy` are partitions that somebody held; `disturbed`: a run gave way."""

    report: RescueReport = field(default_factory=RescueReport)
    busy: tuple[int, ...] = ()
    disturbed: bool = False


def _nothing(_: RescueStep) -> None:
    """Nobody watches."""


def in_danger(queue: Queue, look: TopicLook, margin: Margin) -> dict[int, int]:
    """Map partitions to the offset before which what waits untried may expire soon.

    Those without anything in danger are left out. Raises TopicUnknownError, BrokerUnreachableError,
    ProviderUnusableError.
    """
    rows = {row.partition: row for row in queue.partitions.filter(topic_uuid=look.facts.topic_uuid)}
    waiting = {
        partition: first
        for partition, row in rows.items()
        if (first := _first(row, look)) < look.facts.high.get(partition, 0)
    }
    if not waiting:
        return {}
    old, outgrown = _too_old(queue, look, margin), _outgrown(queue, look, margin, waiting)
    until = {p: max(old.get(p, 0), outgrown.get(p, 0)) for p in waiting}
    return {p: min(until[p], look.facts.high[p]) for p in waiting if until[p] > waiting[p]}


def _first(row: QueuePartition, look: TopicLook) -> int:
    """The first offset that nobody tried, and that stands nowhere but in Kafka."""
    first = row.next_offset + (row.state_error is not None)
    first = max(first, look.facts.low.get(row.partition, 0))
    return first_outside(row.rescues.ranges(row.topic_uuid), first)


def _too_old(queue: Queue, look: TopicLook, margin: Margin) -> Mapping[int, int]:
    """The first offset that is young enough, by partition."""
    kept = look.retention_seconds
    if kept is None:
        return {}
    [(now,)] = fetch_all(_NOW)
    ahead = margin_seconds(kept, margin.share, margin.most_seconds)
    oldest = datetime.fromtimestamp(now, UTC) - timedelta(seconds=kept - ahead)
    return admin.offsets_at(queue.provider, look.facts, queue.topic, oldest)


def _outgrown(
    queue: Queue, look: TopicLook, margin: Margin, waiting: Mapping[int, int]
) -> Mapping[int, int]:
    """The same by size. Brokers do not tell it: it is reckoned from records that wait.

    They compress what they store, so that this errs on the safe side.
    """
    if look.retention_bytes is None:
        return {}
    found = {}
    for partition, first in waiting.items():
        each = average_bytes(queue.provider, queue.topic, {partition: first})
        if each is not None:
            end, kept = look.facts.high[partition], look.retention_bytes
            found[partition] = outgrown_before(end, kept, each, margin.share)
    return found


def rescue_queue(
    queue: Queue,
    until: Mapping[int, int],
    *,
    stop: Callable[[], bool] = lambda: False,
    step: Callable[[RescueStep], None] = _nothing,
    claim_seconds: float = CLAIM_SECONDS,
    piece_records: int = PIECE_RECORDS,
) -> Rescued:
    """Copy what of the queue is untried below `until` (partition -> offset).

    Clients and sessions are made here, after any fork, and closed at the end. Raises
    ProviderUnusableError, LostError, and Django's errors of a database that is away or full.
    """
    close_old_connections()
    timeout = queue.handler_timeout_seconds
    manager = DatabasePartitionManager(
        queue.pk, worker_name(), timeout, rescues=True, settle_left=settle_left
    )
    source = open_source(queue.provider, topic=queue.topic, queue_name=queue.name)
    rescued, is_clean = Rescued(), False
    try:
        held = _take(queue, manager, until, rescued, claim_seconds)
        step(RescueStep.TAKEN)
        context = RescueContext(
            source=source,
            store=rescues.DatabaseRescues(queue.pk),
            reasons={owned.partition: reason_of(queue, owned) for owned in held},
            stop=lambda: manager.is_lost() or stop(),
            step=step,
            piece_records=piece_records,
        )
        rescued.report = rescue(context, held, until)
        is_clean = True
    finally:
        source.close()
        manager.close(clean=is_clean)
        step(RescueStep.RELEASED)
    return rescued


def _take(
    queue: Queue,
    manager: DatabasePartitionManager,
    until: Mapping[int, int],
    rescued: Rescued,
    claim_seconds: float,
) -> list[Owned]:
    """Take the partitions; a run that holds some of them is asked to give way."""
    rows = queue.partitions.filter(partition__in=list(until)).order_by("partition")
    left = dict(rows.values_list("partition", "pk"))
    held: list[Owned] = []
    deadline = time.monotonic() + claim_seconds
    while True:
        taken = manager.take_only(list(left.values()))
        held += taken
        for owned in taken:
            del left[owned.partition]
        if not left or time.monotonic() > deadline:
            break
        if not rescued.disturbed:
            rescued.disturbed = True
            execute(_WANT, [queue.pk])
        time.sleep(CLAIM_EVERY_SECONDS)
    if rescued.disturbed:
        execute(_WANT_NO_MORE, [queue.pk])
    rescued.busy = tuple(left)
    return held


def reason_of(queue: Queue, owned: Owned) -> str:
    """What keeps the queue from reading: people's switches first, then what the engine found."""
    if not queue.enabled:
        return "OFF"
    if queue.paused:
        return "PAUSED"
    return "LATE" if owned.state is PartitionState.RUNNING else owned.state.value
