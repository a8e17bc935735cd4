"""One queue as people see it, made from rows that were read together."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from integration.models import Queue, QueueChange, QueuePartition
from integration.selectors.queues.partitions import (
    PartitionRow,
    partition_row,
    unread,
    up_to_date,
)
from integration.selectors.queues.status import NO_BEAT, LiveProcesses, Situation, Status

Standing = tuple[Status, Situation]
# Where nobody lives to work on it, these need a person all the same, so their word stays.
DECIDED: Final = frozenset({Status.BLOCKED, Status.BRAKED})
# Only a tick of beat begins these; the workers themselves start whatever else is due.
NEED_BEAT: Final = frozenset({Status.NO_READER, Status.NOT_STARTED})


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRow:
    """One queue as people see it; `lag`, `held` and the rest count messages.

    `standing` is how it stands apart from whether anybody lives to work on it. `sends`: it is
    outbound, and its messages are delivered to an endpoint from here. `stop` is who paused it or
    switched it off, where that was noted.
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
    is_jms: bool
    is_error_queue: bool
    enabled: bool
    paused: bool
    status: Status
    situation: Situation
    partitions: tuple[PartitionRow, ...]
    is_stuck: bool
    standing: Standing
    retention: timedelta
    is_system_off: bool
    changed_at: datetime
    sends: bool = False
    stop: QueueChange | None = None
    held: int = 0
    retrying: int = 0
    parked: int = 0

    @property
    def since(self) -> datetime | None:
        """The time of the partition that speaks for the queue, like `failure`; or of an act."""
        if self.status in {Status.PAUSED, Status.OFF}:
            return self.stop.at if self.stop else None
        return row.since if (row := self._decisive) else None

    @property
    def failure(self) -> UUID | None:
        return row.failure if (row := self._decisive) else None

    @property
    def lag(self) -> int | None:
        lags = [row.lag for row in self.partitions if row.lag is not None]
        return sum(lags) if lags else None

    @property
    def is_least(self) -> bool:
        """Return whether more may wait than `lag` tells."""
        return any(row.is_least for row in self.partitions)

    @property
    def counted_at(self) -> datetime | None:
        """The time since which `lag` may have grown."""
        counts = (row.seen_at for row in self.partitions if row.lag is not None and row.seen_at)
        return min(counts, default=None)

    @property
    def oldest_waiting_at(self) -> datetime | None:
        return min((at for row in self.partitions if (at := row.oldest_waiting_at)), default=None)

    @property
    def is_read(self) -> bool:
        """Return whether it has a position here: inbound, or delivered to an endpoint."""
        return self.sends or self.direction == Queue.Direction.INBOUND

    @property
    def expires_at(self) -> datetime | None:
        """The time the first message that waits leaves the topic, by the topic's retention.

        What a JMS broker keeps has no such time, unless its sender gave it one.
        """
        if not self.is_read or self.is_jms or self.oldest_waiting_at is None:
            return None
        return self.oldest_waiting_at + self.retention

    @property
    def _decisive(self) -> PartitionRow | None:
        return min(speakers(self.partitions), key=lambda row: row.status.rank, default=None)

    @property
    def is_over_threshold(self) -> bool:
        return any(row.status is Status.BRAKED for row in self.partitions)

    @property
    def is_early(self) -> bool:
        """Return whether a partition waits until producers know that it was added."""
        return any(row.is_early for row in self.partitions)

    @property
    def codes(self) -> frozenset[str]:
        """The codes of what stops partitions, whatever it is."""
        return frozenset(row.code for row in self.partitions if row.status is not Status.RUNNING)

    @property
    def blocked_codes(self) -> frozenset[str]:
        return frozenset(row.code for row in self.partitions if row.status is Status.BLOCKED)


def queue_row(
    queue: Queue,
    partitions: Sequence[QueuePartition],
    live_processes: LiveProcesses | None = None,
    *,
    stuck: Standing | None = None,
    sends: bool = False,
    stop: QueueChange | None = None,
) -> QueueRow:
    """`partitions` carry the annotations of selectors.queues; failures are not counted yet.

    Without `live_processes` it is not judged whether anybody lives to do the work. `stuck` is why
    an outbound queue needs a person.
    """
    rows = tuple(partition_row(queue, partition) for partition in partitions)
    standing = _standing(queue, rows, None, stuck=stuck, sends=sends)
    status, reason = _standing(queue, rows, live_processes, stuck=stuck, sends=sends)
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
        is_jms=queue.provider.is_jms,
        is_error_queue=queue.is_error_queue,
        enabled=queue.enabled,
        paused=queue.paused,
        status=status,
        situation=reason,
        partitions=rows,
        is_stuck=stuck is not None,
        standing=standing,
        retention=timedelta(seconds=queue.retention_seconds),
        is_system_off=queue.system is not None and not queue.system.enabled,
        changed_at=queue.changed_at,
        sends=sends,
        stop=stop,
    )


def _standing(
    queue: Queue,
    rows: Sequence[PartitionRow],
    live_processes: LiveProcesses | None,
    *,
    stuck: Standing | None,
    sends: bool,
) -> Standing:
    """Tell how it stands with those that live.

    What is delivered from here has two ways that can be closed: into Kafka, and out of it.
    """
    if queue.direction == Queue.Direction.INBOUND:
        return _verdict(queue, rows, live_processes)
    into = _relayed(live_processes, stuck)
    return _worse(into, _verdict(queue, rows, live_processes)) if sends else into


def _worse(into: Standing, out: Standing) -> Standing:
    """The more urgent of the two; of equals the one that asks for something."""
    if into[0].rank != out[0].rank:
        return min(into, out, key=lambda way: way[0].rank)
    return into if into[1].next_step and not out[1].next_step else out


def _verdict(
    queue: Queue, rows: Sequence[PartitionRow], live_processes: LiveProcesses | None
) -> Standing:
    """Explain why nothing moves: by what people switched, then by who is alive."""
    switched = _switched(queue)
    worst = _worst(queue, rows)
    if switched is None:
        return _manned(live_processes, worst)
    status, reason = switched
    if worst[0] in DECIDED:
        why = f"{reason.why} Besides, it is {worst[0].label.lower()}: {worst[1].why}"
        return status, Situation(why, f"{reason.next_step} {worst[1].next_step}")
    return switched


def _switched(queue: Queue) -> Standing | None:
    """Return what people switched off, outermost first."""
    if not queue.enabled:
        return Status.OFF, Situation(
            "A person switched this queue off; its positions are kept.", "Switch it on to continue."
        )
    if queue.paused:
        reason = f": {queue.pause_reason}" if queue.pause_reason else ""
        if queue.paused_until is None:
            why, next_step = "A person paused this queue", "Resume it to continue."
        else:
            why = f"A person paused this queue until {queue.paused_until:%H:%M UTC on %d %B %Y}"
            next_step = "It then continues by itself; resume it to continue now."
        return Status.PAUSED, Situation(f"{why}{reason}.", next_step)
    if queue.system is not None and not queue.system.enabled:
        waits = queue.is_sequential or queue.direction == Queue.Direction.OUTBOUND
        effect = "the queue waits" if waits else "its messages go on hold"
        return Status.WAITING, Situation(
            f"The external system {queue.system.name} is switched off, so {effect}.",
            "Switch the system on again.",
        )
    return None


def speakers(rows: Sequence[PartitionRow]) -> Sequence[PartitionRow]:
    """Return those that speak for the queue: one that came to its stop waits for the others."""
    return [row for row in rows if not row.is_at_stop] or rows


def _worst(queue: Queue, rows: Sequence[PartitionRow]) -> Standing:
    """Return what the engine found: the worst of the partitions speaks for the queue."""
    if not rows:
        return Status.NOT_STARTED, _not_started(queue)
    decisive = min(speakers(rows), key=lambda row: row.status.rank)
    status = decisive.status
    lag = sum(row.lag or 0 for row in rows if row.status is status)
    is_least = any(row.is_least for row in rows)
    if status is Status.RUNNING and lag:
        return status, up_to_date(lag, is_least=is_least)
    if status is Status.NO_READER and decisive.resume_at is None:
        return status, unread(lag, is_least=is_least)
    return status, decisive.situation


def _not_started(queue: Queue) -> Situation:
    """A start that is a group's position depends on what only the cluster can tell."""
    if queue.start_from != Queue.StartFrom.GROUP:
        return Situation(
            "No worker has opened this queue yet.", "Check the flow: it names the missing link."
        )
    return Situation(
        "This queue has no position yet: its first run takes over that of the consumer group "
        f"{queue.start_group}, and reads nothing while the group has none on {queue.topic}.",
        "Check the flow: it asks the cluster for the group's position.",
    )


def _manned(live_processes: LiveProcesses | None, standing: Standing) -> Standing:
    """The same standing, or first that nobody is alive: all else was found before that."""
    status, reason = standing
    lack = _lack(live_processes, status)
    if lack is None:
        return standing
    if status in DECIDED:
        why = f"{lack.why} Besides, it is {status.label.lower()}: {reason.why}"
        return status, Situation(why, f"{lack.next_step} Then: {reason.next_step}")
    if status is Status.NO_READER:
        return status, Situation(f"{lack.why} {reason.why}", lack.next_step)
    if status is Status.NOT_STARTED:
        return Status.NO_READER, lack
    return Status.NO_READER, Situation(f"{lack.why} Last found: {reason.why}", lack.next_step)


def _relayed(live_processes: LiveProcesses | None, stuck: Standing | None = None) -> Standing:
    """Tell how an outbound queue's way into Kafka stands: what is published leaves by the relay.

    `stuck` is what waits for a person, whether a relay lives or not.
    """
    if live_processes is not None and not live_processes.relays:
        if stuck is None:
            return Status.NO_SENDER, live_processes.no_relay
        why = f"{live_processes.no_relay.why} Besides: {stuck[1].why}"
        status = min(stuck[0], Status.NO_SENDER, key=lambda word: word.rank)
        step = f"{live_processes.no_relay.next_step} Then: {stuck[1].next_step}"
        return status, Situation(why, step)
    if stuck is not None:
        return stuck
    return Status.RUNNING, Situation("What handlers publish to it is sent by the relay.", "")


def _lack(live_processes: LiveProcesses | None, status: Status) -> Situation | None:
    if live_processes is None:
        return None
    if not live_processes.workers:
        return live_processes.no_worker
    return NO_BEAT if not live_processes.beats and status in NEED_BEAT else None
