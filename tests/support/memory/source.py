"""The in-memory fake of the Source, and the topic it reads. Held to the same contract suite."""

import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from integration.kafka.errors import BrokerUnreachableError, GroupRefusedError
from integration.values import (
    Assignment,
    Fetched,
    Headers,
    Record,
    TopicFacts,
    Trouble,
    TroubleKind,
)


@dataclass
class MemoryPartition:
    """A log with gaps: offsets that hold nothing for a reader are simply missing."""

    records: dict[int, Record] = field(default_factory=dict)
    low: int = 0
    end: int = 0
    # First offset of a transaction that is still open; nothing from there on is stable.
    open_from: int | None = None

    @property
    def high(self) -> int:
        return self.end if self.open_from is None else self.open_from


class MemoryTopic:
    """A topic in memory. Any thread may write; a waiting source wakes up."""

    def __init__(self, name: str = "topic", partitions: int = 1) -> None:
        self.name = name
        self.changed = threading.Condition()
        self.reachable = True
        self.exists = True
        self.committed: dict[int, int] = {}
        # What a group lets whoever reads try, or why it takes nobody; neither: there is no group.
        self.assigned: Assignment | None = None
        self.group_refuses = ""
        self.recreate(partitions)

    def recreate(self, partitions: int = 1) -> None:
        """Delete the topic and create it again, empty."""
        with self.changed:
            self.uuid = str(uuid.uuid4())
            self.exists = True
            self.partitions = {p: MemoryPartition() for p in range(partitions)}

    def delete(self) -> None:
        with self.changed:
            self.exists = False
            self.partitions = {}
            self.changed.notify_all()

    def append(
        self,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Headers | None = None,
        partition: int = 0,
        timestamp_ms: int | None = None,
    ) -> int:
        """Write one record and return its offset."""
        with self.changed:
            log = self.partitions[partition]
            offset = log.end
            stamp = time.time_ns() // 1_000_000 if timestamp_ms is None else timestamp_ms
            log.records[offset] = Record(partition, offset, stamp, key, value, headers)
            log.end += 1
            self.changed.notify_all()
            return offset

    def begin(self, partition: int = 0) -> None:
        """Open a transaction: what follows stays unseen until it is ended."""
        with self.changed:
            log = self.partitions[partition]
            log.open_from = log.end

    def finish(self, partition: int = 0, *, commit: bool = True) -> None:
        """End the transaction; its marker takes one offset, aborted records leave a gap."""
        with self.changed:
            log = self.partitions[partition]
            start = log.end if log.open_from is None else log.open_from
            if not commit:
                for offset in range(start, log.end):
                    log.records.pop(offset, None)
            log.open_from = None
            log.end += 1
            self.changed.notify_all()

    def expire(self, up_to: int, partition: int = 0) -> None:
        """Forget everything below `up_to`, as retention does."""
        with self.changed:
            log = self.partitions[partition]
            log.low = up_to
            for offset in [o for o in log.records if o < up_to]:
                del log.records[offset]


class MemorySource:
    """Implements integration.delivery.ports.Source over a MemoryTopic."""

    def __init__(self, topic: MemoryTopic) -> None:
        self.topic = topic
        self.closed = False
        self._next: dict[int, int] = {}
        self._ahead: Fetched | None = None
        self._handed_out: dict[int, int] = {}
        self._told_end: dict[int, int] = {}
        self._troubled: set[int] = set()

    def assigned(self) -> Assignment | None:
        return None if self.topic.group_refuses else self.topic.assigned

    def attach(self, positions: Mapping[int, int]) -> None:
        self._next = dict(positions)
        self._ahead = None
        self._told_end = {}
        self._troubled = set()

    def fetch(self, limit: int, wait_seconds: float) -> Fetched:
        ahead, self._ahead = self._ahead, None
        if ahead is not None and ahead.count <= limit:
            return ahead
        if ahead is not None:
            self.attach(self._handed_out)
        deadline = time.monotonic() + wait_seconds
        with self.topic.changed:
            while True:
                fetched = self._look(limit)
                left = deadline - time.monotonic()
                if fetched.records or fetched.drained or fetched.troubles or left <= 0:
                    return fetched
                self.topic.changed.wait(left)

    def read_ahead(self, limit: int) -> Sequence[Record]:
        if self._ahead is not None:
            return ()
        with self.topic.changed:
            self._handed_out = dict(self._next)
            ahead = self._look(limit)
        if ahead.records or ahead.drained or ahead.troubles:
            self._ahead = ahead
        return list(chain.from_iterable(ahead.records.values()))

    def _look(self, limit: int) -> Fetched:
        fetched = Fetched()
        for partition in self._next:
            if partition in self._troubled:
                continue
            trouble = self._trouble(partition)
            if trouble is None:
                limit -= self._read(partition, limit, fetched)
            else:
                self._troubled.add(partition)
                fetched.troubles.append(Trouble(trouble, partition, trouble.value))
        return fetched

    def _trouble(self, partition: int) -> TroubleKind | None:
        if not self.topic.reachable:
            return TroubleKind.UNAVAILABLE
        log = self.topic.partitions.get(partition)
        if log is None:
            return TroubleKind.UNKNOWN_TOPIC
        if not log.low <= self._next[partition] <= log.end:
            return TroubleKind.OUT_OF_RANGE
        return None

    def _read(self, partition: int, limit: int, fetched: Fetched) -> int:
        """Take up to `limit` records of one partition; return how many."""
        log = self.topic.partitions[partition]
        start = self._next[partition]
        offsets = [o for o in sorted(log.records) if start <= o < log.high][: max(limit, 0)]
        if offsets:
            fetched.records[partition] = [log.records[o] for o in offsets]
            self._next[partition] = offsets[-1] + 1
        rest = any(self._next[partition] <= o < log.high for o in log.records)
        if not rest and self._told_end.get(partition) != log.high:
            self._told_end[partition] = log.high
            self._next[partition] = max(self._next[partition], log.high)
            fetched.drained.add(partition)
            fetched.ends[partition] = log.high
        return len(offsets)

    def facts(self) -> TopicFacts | None:
        if not self.topic.reachable:
            raise BrokerUnreachableError("memory", "switched off")
        if not self.topic.exists:
            return None
        if self.topic.group_refuses:
            raise GroupRefusedError("memory", "group", self.topic.group_refuses)
        logs = self.topic.partitions
        return TopicFacts(
            self.topic.uuid,
            {p: log.low for p, log in logs.items()},
            {p: log.high for p, log in logs.items()},
        )

    def ends(self) -> Mapping[int, int] | None:
        if self.facts() is None:
            return None
        return {p: log.end for p, log in self.topic.partitions.items()}

    commit_every_seconds: float = 1.0

    def commit_to_group(self, positions: Mapping[int, int]) -> None:
        self.topic.committed.update(positions)

    def close(self) -> None:
        self.closed = True
