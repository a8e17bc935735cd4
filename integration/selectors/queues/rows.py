"""One queue and its partitions as people see them, made from rows that were read together."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from integration.delivery.policy.states import ErrorState, PartitionState
from integration.models import Queue, QueuePartition
from integration.selectors.queues.crew import Standing, manned, sends
from integration.selectors.queues.status import (
    OF_PARTITION,
    Crew,
    Situation,
    Status,
    situation,
    worst,
)

# States that end by themselves at `resume_at`, if a worker lives.
TIMED: Final = frozenset({Status.OUTAGE, Status.BACKOFF})


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRow:
    """One partition as people see it. `lag` counts messages as the broker said last.

    The position may be newer than that: the end is never shown below it, and where nothing waits
    nothing is the oldest.
    """

    number: int
    status: Status
    situation: Situation
    code: str
    said: str
    since: datetime | None
    resume_at: datetime | None
    failure: UUID | None
    next_offset: int
    high_watermark: int | None
    lag: int | None
    oldest_waiting_at: datetime | None
    seen_at: datetime | None
    progressed_at: datetime | None
    owner: str
    lease_until: datetime | None
    is_owned: bool
    epoch: int
    topic_uuid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRow:
    """One queue as people see it; `lag`, `held` and the rest count messages.

    `found` is how it stands apart from whether anybody lives to work on it. `expires_at` is when
    the first message that waits leaves the topic, by the topic's retention.
    """

    id: int
    name: str
    description: str
    topic: str
    provider: str
    provider_id: int
    system: str
    system_id: int | None
    kind: str
    direction: str
    is_error_queue: bool
    enabled: bool
    paused: bool
    status: Status
    situation: Situation
    since: datetime | None
    failure: UUID | None
    lag: int | None
    oldest_waiting_at: datetime | None
    held: int
    retrying: int
    ready: int
    partitions: tuple[PartitionRow, ...]
    is_stuck: bool
    found: Standing
    expires_at: datetime | None
    retention: timedelta
    is_system_off: bool
    changed_at: datetime

    @property
    def is_braked(self) -> bool:
        return any(row.status is Status.BRAKED for row in self.partitions)

    @property
    def codes(self) -> frozenset[str]:
        """Of what stops partitions, whatever it is."""
        return frozenset(row.code for row in self.partitions if row.status is not Status.RUNNING)

    @property
    def blocked_codes(self) -> frozenset[str]:
        return frozenset(row.code for row in self.partitions if row.status is Status.BLOCKED)


def queue_row(
    queue: Queue,
    partitions: Sequence[QueuePartition],
    open_errors: Mapping[str, int],
    crew: Crew | None = None,
    *,
    stuck: Standing | None = None,
) -> QueueRow:
    """`partitions` carry the annotations of selectors.queues; `open_errors` counts by state.

    Without a `crew` it is not judged whether anybody lives to do the work. `stuck` is why an
    outbound queue needs a person.
    """
    rows = tuple(partition_row(queue, partition) for partition in partitions)
    if queue.direction == Queue.Direction.OUTBOUND:
        found = sends(None, stuck)
        status, reason = sends(crew, stuck)
    else:
        found = _verdict(queue, rows, None)
        status, reason = _verdict(queue, rows, crew)
    decisive = min(rows, key=lambda row: row.status.rank, default=None)
    lags = [row.lag for row in rows if row.lag is not None]
    waiting = [row.oldest_waiting_at for row in rows if row.oldest_waiting_at is not None]
    return QueueRow(
        id=queue.pk,
        name=queue.name,
        description=queue.description,
        topic=queue.topic,
        provider=queue.provider.name,
        provider_id=queue.provider_id,
        system=queue.system.name if queue.system else "",
        system_id=queue.system_id,
        kind=queue.kind,
        direction=queue.direction,
        is_error_queue=queue.is_error_queue,
        enabled=queue.enabled,
        paused=queue.paused,
        status=status,
        situation=reason,
        since=decisive.since if decisive else None,
        failure=decisive.failure if decisive else None,
        lag=sum(lags) if lags else None,
        oldest_waiting_at=min(waiting, default=None),
        held=open_errors.get(ErrorState.HOLD, 0),
        retrying=open_errors.get(ErrorState.RETRY, 0),
        ready=open_errors.get(ErrorState.READY, 0) + open_errors.get(ErrorState.PROCESSING, 0),
        partitions=rows,
        is_stuck=stuck is not None,
        found=found,
        expires_at=_expiry(queue, waiting),
        retention=timedelta(seconds=queue.retention_seconds),
        is_system_off=queue.system is not None and not queue.system.enabled,
        changed_at=queue.changed_at,
    )


def _expiry(queue: Queue, waiting: Sequence[datetime]) -> datetime | None:
    """When the first of them leaves Kafka: its retention is mirrored on the queue."""
    if not waiting or queue.direction == Queue.Direction.OUTBOUND:
        return None
    return min(waiting) + timedelta(seconds=queue.retention_seconds)


def partition_row(queue: Queue, partition: QueuePartition) -> PartitionRow:
    lease = getattr(partition, "lease", None)
    is_owned: bool = getattr(partition, "is_owned", False)
    state = PartitionState(partition.state)
    status = OF_PARTITION[state]
    reason = situation(
        state,
        partition.state_code,
        partition.state_text,
        topic=queue.topic,
        limit=queue.max_open_errors,
    )
    if status is Status.RUNNING:
        status, reason = _running(partition, is_owned=is_owned)
    elif status in TIMED and not is_owned and getattr(partition, "is_overdue", False):
        status, reason = Status.NO_READER, _overdue(reason)
    return PartitionRow(
        number=partition.partition,
        status=status,
        situation=reason,
        code=partition.state_code,
        said=partition.state_text,
        since=partition.state_since,
        resume_at=partition.resume_at,
        failure=partition.state_error,
        next_offset=partition.next_offset,
        high_watermark=_end(partition),
        lag=partition.lag,
        oldest_waiting_at=None if partition.lag == 0 else partition.oldest_waiting_at,
        seen_at=partition.seen_at,
        progressed_at=partition.progressed_at,
        owner=lease.owner if lease is not None and is_owned else "",
        lease_until=lease.lease_until if lease is not None else None,
        is_owned=is_owned,
        epoch=partition.epoch,
        topic_uuid=partition.topic_uuid,
    )


def _end(partition: QueuePartition) -> int | None:
    """Where the partition ends at least: the broker's last word, or the position beyond it."""
    if partition.high_watermark is None:
        return None
    return max(partition.high_watermark, partition.next_offset)


def _running(partition: QueuePartition, *, is_owned: bool) -> tuple[Status, Situation]:
    lag = partition.lag
    if not is_owned and lag != 0 and getattr(partition, "is_unread", False):
        return Status.NO_READER, _unread(lag or 0)
    if lag is None:
        why = "The lag monitor has not looked yet, so it is not known what waits."
        return Status.RUNNING, Situation(why, "")
    return Status.RUNNING, _up_to_date(lag)


def _overdue(found: Situation) -> Situation:
    why = f"Its next try is minutes overdue, and no worker has made it. Last found: {found.why}"
    return Situation(why, "Check the flow: it names the broken link.")


def _unread(lag: int) -> Situation:
    waiting = _messages(lag) if lag else "Messages may wait"
    why = f"{waiting}, and no worker has taken one for minutes."
    return Situation(why, "Check the flow: it names the broken link.")


def _up_to_date(lag: int) -> Situation:
    if not lag:
        return Situation("Everything there is has been applied.", "")
    return Situation(f"{_messages(lag)} for their turn.", "")


def _messages(count: int) -> str:
    return "One message waits" if count == 1 else f"{count:,} messages wait"


def _verdict(
    queue: Queue, rows: Sequence[PartitionRow], crew: Crew | None
) -> tuple[Status, Situation]:
    """What people switched comes first, then who is alive: they explain why nothing moves."""
    switched = _switched(queue)
    found = _found(rows)
    if switched is None:
        return manned(crew, found)
    status, reason = switched
    if found[0] in {Status.BLOCKED, Status.BRAKED}:
        why = f"{reason.why} Besides, it is {found[0].label.lower()}: {found[1].why}"
        return status, Situation(why, f"{reason.next_step} {found[1].next_step}")
    return switched


def _switched(queue: Queue) -> tuple[Status, Situation] | None:
    """What people switched off, outermost first."""
    if not queue.enabled:
        return Status.OFF, Situation(
            "A person switched this queue off; its positions are kept.", "Switch it on to go on."
        )
    if queue.paused:
        said = f": {queue.pause_reason}" if queue.pause_reason else ""
        return Status.PAUSED, Situation(f"A person paused this queue{said}.", "Resume it to go on.")
    if queue.system is not None and not queue.system.enabled:
        effect = "the queue waits" if queue.is_sequential else "its messages go on hold"
        return Status.WAITING, Situation(
            f"The external system {queue.system.name} is switched off, so {effect}.",
            "Switch the system on again.",
        )
    return None


def _found(rows: Sequence[PartitionRow]) -> tuple[Status, Situation]:
    """What the engine found: the worst of the partitions speaks for the queue."""
    if not rows:
        return Status.NOT_STARTED, Situation(
            "No worker has opened this queue yet.", "Check the flow: it names the missing link."
        )
    status = worst([row.status for row in rows])
    decisive = next(row for row in rows if row.status is status)
    lag = sum(row.lag or 0 for row in rows if row.status is status)
    if status is Status.RUNNING and lag:
        return status, _up_to_date(lag)
    if status is Status.NO_READER and decisive.resume_at is None:
        return status, _unread(lag)
    return status, decisive.situation
