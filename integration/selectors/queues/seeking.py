"""The consequences of moving a queue's position: before and after, partition by partition."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from integration.kafka import admin
from integration.kafka.errors import TopicUnknownError
from integration.models import MessageError, Queue, QueuePartition
from integration.policy.rescue import end_of
from integration.policy.states import OPEN, in_order
from integration.values import TopicFacts


class To(StrEnum):
    """Where a position is moved to."""

    BEGINNING = "beginning"
    END = "end"
    OFFSET = "offset"
    TIME = "time"
    SKIP = "skip"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a person asks for, of one partition or, with None, of all."""

    to: To
    partition: int | None = None
    offset: int = 0
    at: datetime | None = None
    count: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One partition before and after; counts are offsets the broker has, and messages at most.

    `open_between` are open failures between the two. Where the queue keeps its order, `head` is the
    one at the position. `problem` is why this partition cannot be moved there.
    """

    partition: int
    epoch: int
    before: int
    after: int
    low: int
    high: int
    open_between: int = 0
    head: UUID | None = None
    problem: str = ""

    @property
    def moves(self) -> bool:
        return self.after != self.before and not self.problem

    @property
    def again(self) -> int:
        """The messages that would be read again, at most."""
        return self._overlap(self.after, self.before)

    @property
    def skipped(self) -> int:
        """The messages that would be skipped, at most."""
        return self._overlap(self.before, self.after)

    @property
    def move(self) -> str:
        """The move as a form carries it."""
        return f"{self.partition}:{self.epoch}:{self.before}:{self.after}"

    def _overlap(self, first: int, after: int) -> int:
        return max(0, min(after, self.high) - max(first, self.low))


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything that would change."""

    lines: tuple[Line, ...]

    @property
    def moving(self) -> tuple[Line, ...]:
        return tuple(line for line in self.lines if line.moves)

    @property
    def again(self) -> int:
        return sum(line.again for line in self.moving)

    @property
    def skipped(self) -> int:
        return sum(line.skipped for line in self.moving)

    @property
    def untried(self) -> int:
        """Those of what is skipped that were never tried: the heads that are passed were."""
        return self.skipped - len(self.heads)

    @property
    def open_between(self) -> int:
        """Open failures among what would be read again."""
        return sum(line.open_between for line in self.moving if line.after < line.before)

    @property
    def heads(self) -> tuple[Line, ...]:
        """Those that would pass the failure which stops them."""
        return tuple(line for line in self.moving if line.head and line.after > line.before)


def facts_of(queue: Queue) -> TopicFacts:
    """Ask the broker about the queue's topic. Raises TopicUnknownError, BrokerUnreachableError."""
    facts = admin.topic_facts(queue.provider, queue.topic)
    if facts is None:
        raise TopicUnknownError(queue.provider.name, queue.topic)
    return facts


def plan(queue: Queue, wanted: Wanted) -> Plan:
    """Compare each position with where it would go. Raises IntegrationError of the broker."""
    facts = facts_of(queue)
    targets = _targets(queue, wanted, facts)
    rows = queue.partitions.order_by("partition")
    if wanted.partition is not None:
        rows = rows.filter(partition=wanted.partition)
    return Plan(lines=tuple(_lines(queue, rows, facts, targets, wanted)))


def _targets(queue: Queue, wanted: Wanted, facts: TopicFacts) -> Mapping[int, int]:
    """The offsets by partition; a skip begins at the position and is found there."""
    match wanted.to:
        case To.BEGINNING:
            return facts.low
        case To.END:
            return facts.high
        case To.OFFSET:
            return dict.fromkeys(facts.low, wanted.offset)
        case To.TIME if wanted.at is not None:
            return admin.offsets_at(queue.provider, facts, queue.topic, wanted.at)
        case _:
            return {}


def _lines(
    queue: Queue,
    rows: Iterable[QueuePartition],
    facts: TopicFacts,
    targets: Mapping[int, int],
    wanted: Wanted,
) -> Iterator[Line]:
    for row in rows:
        low, high = facts.low.get(row.partition, 0), facts.high.get(row.partition, 0)
        after = targets.get(row.partition, row.next_offset)
        if wanted.to is To.SKIP:
            after = row.next_offset + wanted.count
        place: dict[str, Any] = {"epoch": row.epoch, "before": row.next_offset}
        problem = _problem(row, facts, after)
        known = {} if problem else _failures(queue, row, after)
        place |= {"low": low, "high": high, **known}
        yield Line(partition=row.partition, after=after, problem=problem, **place)


def _problem(row: QueuePartition, facts: TopicFacts, after: int) -> str:
    if row.partition not in facts.low:
        return "The topic does not have this partition."
    if row.topic_uuid != facts.topic_uuid:
        return "The topic was made anew since: adopt it on the queue's page."
    low, high = facts.low[row.partition], facts.high[row.partition]
    if low <= after <= high or end_of(row.rescues.ranges(row.topic_uuid), after) is not None:
        return ""
    return f"The topic has offsets {low:,} to {high:,}, its end."


def _failures(queue: Queue, row: QueuePartition, after: int) -> Mapping[str, Any]:
    """What is known of messages between the two."""
    here = MessageError.objects.filter(
        queue=queue, topic_uuid=row.topic_uuid, partition=row.partition
    )
    first, last = sorted((after, row.next_offset))
    here = here.filter(state__in=in_order(OPEN))
    known = {"open_between": here.filter(offset__gte=first, offset__lt=last).count()}
    if not queue.keeps_order:
        return known
    head = here.filter(offset=row.next_offset).values_list("pk", flat=True).first()
    return {**known, "head": head}
