"""Two worlds in which a source reads: a topic in memory and one on a real broker."""

import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from integration.delivery.ports import Source
from integration.kafka.admin import group_offsets
from integration.kafka.source import open_source, source_of
from integration.models import Provider, Queue
from integration.values import Assignment, Fetched
from tests.support.kafka_world import Kafka
from tests.support.memory.source import MemorySource, MemoryTopic

Pairs = Sequence[tuple[str, bytes | None]]


class World(Protocol):
    """What a test does to a topic behind a source's back."""

    def write(self, *values: bytes | None, partition: int = 0) -> None: ...
    def write_one(self, value: bytes | None, key: bytes | None, headers: Pairs | None) -> None: ...
    def transaction(self, *values: bytes, commit: bool) -> None: ...
    def begin(self, *values: bytes) -> None: ...
    def finish(self) -> None: ...
    def expire(self, up_to: int) -> None: ...
    def delete(self) -> None: ...
    def recreate(self) -> None: ...
    def source(self) -> Source: ...
    def member(self, protocol: str) -> Source: ...
    def committed(self) -> dict[int, int]: ...


class MemoryWorld:
    """A MemoryTopic with two partitions."""

    def __init__(self) -> None:
        self.topic = MemoryTopic(partitions=2)

    def write(self, *values: bytes | None, partition: int = 0) -> None:
        for value in values:
            self.topic.append(value, partition=partition)

    def write_one(self, value: bytes | None, key: bytes | None, headers: Pairs | None) -> None:
        self.topic.append(value, key=key, headers=headers)

    def transaction(self, *values: bytes, commit: bool) -> None:
        self.topic.begin()
        self.write(*values)
        self.topic.finish(commit=commit)

    def begin(self, *values: bytes) -> None:
        self.topic.begin()
        self.write(*values)

    def finish(self) -> None:
        self.topic.finish()

    def expire(self, up_to: int) -> None:
        self.topic.expire(up_to)

    def delete(self) -> None:
        self.topic.delete()

    def recreate(self) -> None:
        self.topic.recreate(partitions=2)

    def source(self) -> Source:
        return MemorySource(self.topic)

    def member(self, protocol: str) -> Source:
        self.topic.assigned = Assignment("a member", frozenset(self.topic.partitions))
        return self.source()

    def committed(self) -> dict[int, int]:
        return self.topic.committed


class KafkaWorld:
    """A topic of its own with two partitions on the session's broker."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.name = f"source-{uuid.uuid4().hex[:12]}"
        self.admin = AdminClient({"bootstrap.servers": bootstrap})
        self.producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
        self.open: Producer | None = None
        self._create()

    def _create(self) -> None:
        self.admin.create_topics([NewTopic(self.name, 2, 1)])[self.name].result()
        # It may be unknown to the broker that made it for a moment.
        until(lambda: self.name in self.admin.list_topics(timeout=5).topics)

    def write(self, *values: bytes | None, partition: int = 0) -> None:
        for value in values:
            self.producer.produce(self.name, value, partition=partition)
        assert self.producer.flush(10) == 0

    def write_one(self, value: bytes | None, key: bytes | None, headers: Pairs | None) -> None:
        found: Any = None if headers is None else list(headers)
        self.producer.produce(self.name, value, key=key, headers=found, partition=0)
        assert self.producer.flush(10) == 0

    def transaction(self, *values: bytes, commit: bool) -> None:
        self.begin(*values)
        assert self.open is not None
        if commit:
            self.finish()
        else:
            self.open.abort_transaction(10)
            Kafka(self.bootstrap).await_decided(self.name)

    def begin(self, *values: bytes) -> None:
        if self.open is None:
            settings = {"transactional.id": self.name, "retry.backoff.ms": 1}
            self.open = Producer({"bootstrap.servers": self.bootstrap, **settings})
            self.open.init_transactions(20)
        self.open.begin_transaction()
        for value in values:
            self.open.produce(self.name, value, partition=0)
        assert self.open.flush(10) == 0

    def finish(self) -> None:
        assert self.open is not None
        self.open.commit_transaction(10)
        Kafka(self.bootstrap).await_decided(self.name)

    def expire(self, up_to: int) -> None:
        place = TopicPartition(self.name, 0, up_to)
        self.admin.delete_records([place])[place].result()

    def delete(self) -> None:
        self.admin.delete_topics([self.name])[self.name].result()

    def recreate(self) -> None:
        self.delete()
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            # The broker removes a deleted topic a moment after it has answered.
            if self.name not in self.admin.list_topics(timeout=5).topics:
                break
        self._create()

    def add_partition(self) -> None:
        self.admin.create_partitions([NewPartitions(self.name, 3)])[self.name].result()

    def provider(self) -> Provider:
        return Provider(pk=1, name="main", bootstrap_servers=self.bootstrap)

    def source(self) -> Source:
        return open_source(self.provider(), topic=self.name, queue_name=self.name)

    def member(self, protocol: str) -> Source:
        queue = Queue(name=self.name, topic=self.name, provider=self.provider())
        queue.group_protocol = protocol
        return source_of(queue)

    def committed(self) -> dict[int, int]:
        return group_offsets(self.provider(), f"sluice-{self.name}", self.name, [0, 1])


def read_all(source: Source, *partitions: int, limit: int = 100) -> Fetched:
    """Fetch until the ends of `partitions` are reached; what came, in one."""
    found = Fetched()
    deadline = time.monotonic() + 15
    while not found.drained >= set(partitions):
        assert time.monotonic() < deadline, f"the end was not reached: {found}"
        fetched = source.fetch(limit, 1.0)
        assert sum(map(len, fetched.records.values())) <= limit
        for partition, records in fetched.records.items():
            found.records.setdefault(partition, []).extend(records)
            found.drained.discard(partition)
        found.drained |= fetched.drained
        found.ends |= fetched.ends
        found.troubles += fetched.troubles
    return found


def until(is_so: Callable[[], object], seconds: float = 15) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.02)
