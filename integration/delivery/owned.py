"""A partition in this run's hands: its fence, its position and what the run remembers of it."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from integration.policy.batching import FailureRate
from integration.policy.failure_thresholds import FailureStreak
from integration.policy.rescue import Range, end_of, gone_until
from integration.policy.states import Ended, PartitionState
from integration.values import TopicFacts

HEAD_HELD: Final = "HEAD_HELD"


@dataclass(frozen=True, slots=True)
class ClosedHead:
    """The row at the next offset was closed as it stood there: the position passes it."""

    id: UUID
    ended: Ended


@dataclass(frozen=True, slots=True)
class CopiedHead:
    """At the next offset is the copy of an open failure; only the queue it failed in tries it."""

    id: UUID


@dataclass(slots=True, kw_only=True)
class OpenBatch:
    """A batch that is worked side by side: what is through of it, whatever the position says.

    It reaches from `first`, where the position was when it began, up to `until`. It has one arrival
    number for good: what a crash or a stop leaves open keeps it. `offsets` are those in work now,
    in order.
    """

    arrival: int
    first: int
    until: int
    done: set[int] = field(default_factory=set)
    offsets: Sequence[int] = ()

    @property
    def end(self) -> int:
        """Return where the position stands once all that is in work is through."""
        return self.offsets[-1] + 1

    def close(self, offsets: Collection[int]) -> int:
        """Note what is through by now; returns the position, which is the lowest open offset."""
        self.done.update(offsets)
        return next((at for at in self.offsets if at not in self.done), self.end)


@dataclass(slots=True, kw_only=True)
class Owned:
    """One partition held by this run. Only the holder of `epoch` may change its row.

    `generation` counts how often its offsets were given to other messages. `due` says whether a
    waiting state may be tried again now. `isolate_until` makes messages run alone under a marker up
    to that offset, after unclean ends. `failed_until` is the highest offset from the position on
    that had an error row when the partition was taken: only a position that went back has one,
    besides a head. `called_until` is the highest one from the position on whose call was meant, as
    far as this run knows. `moved_until` is the offset up to which messages before it had failed
    when a person moved the position: what lies there is met again. `waits_for_others` is one that
    was added to the topic: the keys in it may have moved there from the others. `lost_from` is
    where its topic ended that had lost what was read of it, as far as is noted. `has_parked` tells
    of a sequential queue that failures of it were parked: messages of their keys follow them.
    `stop_at` is the offset before which a person wants it to stop, `stop_told` the last one that
    was found to be reached. `member` is the one of a consumer group that was assigned it, empty
    where no group has a say. `rescued` are the offsets at or beyond the position whose records
    stand in the database: no other owner can add to them meanwhile. `open_batch` is the last batch
    that was worked side by side, `in_work` is set as long as messages of it are delivered.
    `has_met_suspect` tells that this run has marked the message that earlier ones died on.
    """

    id: int
    partition: int
    epoch: int
    next_offset: int
    topic_uuid: str
    generation: int = 0
    is_lowest: bool = True
    member: str = ""
    state: PartitionState
    state_code: str = ""
    due: bool = True
    probes: int = 0
    unclean_ends: int = 0
    suspect_offset: int | None = None
    suspect_receipt: bytes | None = None
    suspect_crashes: int = 0
    suspect_hung: bool = False
    has_met_suspect: bool = False
    may_have_head: bool = True
    isolate_until: int | None = None
    failed_until: int | None = None
    called_until: int | None = None
    moved_until: int | None = None
    waits_for_others: bool = False
    lost_from: int | None = None
    has_parked: bool = False
    stop_at: int | None = None
    stop_told: int | None = None
    rescued: tuple[Range, ...] = ()
    open_batch: OpenBatch | None = None
    in_work: OpenBatch | None = None
    rate: FailureRate = field(default_factory=FailureRate)
    failure_streak: FailureStreak = field(default_factory=FailureStreak)

    @property
    def rest(self) -> OpenBatch | None:
        """Return the batch that the position stands in: some of it is through already."""
        batch = self.open_batch
        return None if batch is None or self.next_offset >= batch.until else batch

    @property
    def done(self) -> Collection[int]:
        """Return what is through at or beyond the position; maybe some before it."""
        rest = self.rest
        return () if rest is None else rest.done

    @property
    def reached(self) -> int:
        """Return the offset up to which the database knows messages of the topic.

        Beyond the position those are what is done ahead of it, what has failed, and what calls were
        made for.
        """
        ahead = [at for at in (self.failed_until, self.called_until) if at is not None]
        return max(self.next_offset, max([*self.done, *ahead], default=-1) + 1)

    def is_cut(self, facts: TopicFacts | None) -> bool:
        """Note where the topic ends below what was rescued of it; returns whether that is news.

        It blocks once that is read, however far the topic has grown until then.
        """
        is_ours = facts is not None and facts.topic_uuid == self.topic_uuid
        if facts is None or not is_ours or self.state is not PartitionState.RUNNING:
            return False
        end = facts.high.get(self.partition)
        return end is not None and any(to > end for _, to in self.rescued) and self.lose(end)

    def lose(self, lost_from: int | None) -> bool:
        """Note where the topic ended, if it had lost something; returns whether that is news."""
        known = self.lost_from
        if lost_from is None or (known is not None and known <= lost_from):
            return False
        self.lost_from = lost_from
        return True

    def meet(self, *, is_suspect: bool) -> int:
        """Note whose marker is to stand now; returns how often work died on that message."""
        self.has_met_suspect |= is_suspect
        return self.suspect_crashes if is_suspect else 0

    def reads_again(self, offset: int) -> bool:
        """Return whether a failure at this offset is older than the last move of the position."""
        return self.next_offset <= offset < (self.moved_until or 0)

    @property
    def blocked_by_topic(self) -> bool:
        """Return whether the position means nothing until a person acts: not even its row runs."""
        return self.state is PartitionState.BLOCKED and self.state_code != HEAD_HELD

    @property
    def at_stop(self) -> bool:
        """Return whether the position is where a person wants it to stop."""
        return self.stop_at is not None and self.next_offset >= self.stop_at

    def up_to_stop(self, offset: int) -> int:
        """Return the offset, or the stop where it lies beyond: the position goes no further."""
        if self.stop_at is None:
            return offset
        return min(offset, max(self.stop_at, self.next_offset))

    @property
    def rescued_until(self) -> int | None:
        """Return up to where records are read from the database; None where Kafka has the next."""
        return end_of(self.rescued, self.next_offset)

    def gone_until(self, low: int) -> int:
        """Return up to where nothing is left to read; the position where nothing is missing."""
        return gone_until(self.rescued, self.next_offset, low)

    @property
    def reads_kafka(self) -> bool:
        """Return whether records may be fetched: not before a person or the clock has acted."""
        if self.waits_for_others or self.at_stop:
            return False
        match self.state:
            case PartitionState.RUNNING:
                return True
            case PartitionState.OUTAGE | PartitionState.BACKOFF | PartitionState.WAITING:
                return self.due
            case PartitionState.BLOCKED | PartitionState.BRAKED:
                return False
