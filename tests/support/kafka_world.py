"""Topics, records and readers for tests, on the real broker."""

import json
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from typing import Any, Final

import pytest
from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    OffsetSpec,
)
from django.conf import settings

ANSWER_SECONDS: Final = 20
# The clusters that a file of tests has had its hand on.
_touched: set[str] = set()


def _soon(ask: Callable[[], object], seconds: float = 60) -> None:
    """Ask again for a minute: a broker that a busy machine held up fences itself and comes back."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            ask()
            return
        except KafkaException:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


@lru_cache(maxsize=1)
def _clients(bootstrap: str) -> tuple[AdminClient, Producer]:
    """Those of the cluster that was asked for last: to connect takes longer than most questions."""
    quiet = {"bootstrap.servers": bootstrap, "log_level": 0}
    return AdminClient(quiet), Producer({**quiet, "linger.ms": 5})


class Kafka:
    """The test's hand on the broker."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.admin, self.producer = _clients(bootstrap)
        _touched.add(bootstrap)

    def topic(self, partitions: int = 1, name: str | None = None, **config: str) -> str:
        name = name or f"t-{uuid.uuid4().hex[:10]}"
        new = NewTopic(name, num_partitions=partitions, replication_factor=1, config=config)
        _soon(lambda: self.admin.create_topics([new])[name].result(20))
        # A topic exists before its partitions have leaders: wait until each one answers.
        for partition in range(partitions):
            _soon(partial(self._ask_leader, TopicPartition(name, partition)))
        return name

    def _ask_leader(self, place: TopicPartition) -> None:
        # A leader that was missing stays missing in the client's own memory, which list_offsets
        # believes for minutes; a description asks the broker again.
        self.admin.describe_topics(TopicCollection([place.topic]))[place.topic].result(10)
        self.admin.list_offsets({place: OffsetSpec.latest()})[place].result(10)

    def wait_for_controller(self, seconds: float = 180) -> None:
        """Until the cluster names one: without it relays and runs wait, or end."""
        _soon(self._ask_controller, seconds)

    def _ask_controller(self) -> None:
        if self.admin.describe_cluster(request_timeout=10).result(20).controller is None:
            raise KafkaException(KafkaError(KafkaError.BROKER_NOT_AVAILABLE))

    def configure(self, name: str, **config: str) -> None:
        """Change settings of a topic, and wait until it has them."""
        resource = ConfigResource(
            ConfigResource.Type.TOPIC,
            name,
            incremental_configs=[
                ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
                for key, value in config.items()
            ],
        )
        self.admin.incremental_alter_configs([resource])[resource].result(10)

        def has_them() -> bool:
            found = self.admin.describe_configs([resource])[resource].result(10)
            return all(found[key].value == value for key, value in config.items())

        deadline = time.monotonic() + ANSWER_SECONDS
        while not has_them():
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def delete(self, name: str) -> None:
        self.admin.delete_topics([name])[name].result(10)

    def delete_all(self) -> None:
        """Delete every topic that is not Kafka's own."""
        listed = self.admin.list_topics(timeout=ANSWER_SECONDS).topics
        if names := [name for name in listed if not name.startswith("__")]:
            for deleted in self.admin.delete_topics(names).values():
                deleted.result(ANSWER_SECONDS)

    def send(self, topic: str, values: Iterable[Any], **options: Any) -> None:
        """Each value is bytes, None or something that becomes JSON."""
        for value in values:
            raw = value if value is None or isinstance(value, bytes) else json.dumps(value).encode()
            self.producer.produce(topic, raw, **options)
            self.producer.poll(0)
        assert self.producer.flush(20) == 0

    def send_keyed(self, topic: str, pairs: Iterable[tuple[str, Any]]) -> None:
        """A key and what becomes JSON, for each; none is waited for before the last is sent."""
        for key, value in pairs:
            self.producer.produce(topic, json.dumps(value).encode(), key)
            self.producer.poll(0)
        assert self.producer.flush(20) == 0

    def send_in_transaction(self, topic: str, values: Iterable[Any]) -> None:
        """As partners do who write exactly once: a marker follows the records."""
        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "transactional.id": f"x-{uuid.uuid4().hex}",
                "log_level": 0,
            }
        )
        producer.init_transactions(20)
        producer.begin_transaction()
        for value in values:
            producer.produce(topic, json.dumps(value).encode())
        producer.commit_transaction(20)
        self.await_decided(topic)

    def end(self, topic: str, partition: int = 0) -> int:
        place = TopicPartition(topic, partition)
        return int(self.admin.list_offsets({place: OffsetSpec.latest()})[place].result(10).offset)

    def committed(self, group: str, topic: str) -> int:
        """The offset a group has committed for the first partition, negative for none yet."""
        # By a consumer: the library's other clients end the process where the coordinator is only
        # just coming. It joins no group.
        reader = Consumer({"bootstrap.servers": self.bootstrap, "group.id": group, "log_level": 0})
        try:
            [place] = reader.committed([TopicPartition(topic, 0)], timeout=10)
        except KafkaException:
            return -1
        finally:
            reader.close()
        return int(place.offset)

    def commit(self, group: str, topic: str, offset: int, partition: int = 0) -> None:
        """Commit an offset of a partition for a group that nobody is a member of."""
        reader = Consumer({"bootstrap.servers": self.bootstrap, "group.id": group, "log_level": 0})
        reader.commit(offsets=[TopicPartition(topic, partition, offset)], asynchronous=False)
        reader.close()

    def delete_records(self, topic: str, before: int, partition: int = 0) -> None:
        place = TopicPartition(topic, partition, before)
        self.admin.delete_records([place])[place].result(10)

    def await_decided(self, topic: str) -> None:
        """Wait until no transaction is open in it: a commit is confirmed before its markers."""
        places = {TopicPartition(topic, p): OffsetSpec.latest() for p in self._partitions(topic)}

        def ends(level: IsolationLevel) -> list[int]:
            asked = self.admin.list_offsets(places, isolation_level=level, request_timeout=10)
            return [each.result(10).offset for each in asked.values()]

        deadline = time.monotonic() + 60
        while ends(IsolationLevel.READ_COMMITTED) != ends(IsolationLevel.READ_UNCOMMITTED):
            assert time.monotonic() < deadline, f"a transaction is still open in {topic}"
            time.sleep(0.02)

    def _partitions(self, topic: str) -> list[int]:
        return list(self.admin.list_topics(topic, 10).topics[topic].partitions)

    def read_all(
        self, topic: str, partitions: Sequence[int] = (0,), *, decided: bool = True
    ) -> list[Message]:
        """All that a read_committed reader sees, once no transaction is open in the topic.

        Where one is to stay open meanwhile, it is not `decided`.
        """
        if decided:
            self.await_decided(topic)
        reader = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": f"r-{uuid.uuid4().hex}",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        reader.assign([TopicPartition(topic, p, 0) for p in partitions])
        seen: list[Message] = []
        ended: set[int] = set()
        while len(ended) < len(partitions):
            # Many at a time would be waited for until as many are there.
            message = reader.poll(5)
            if message is None:
                continue
            if message.error() is None:
                seen.append(message)
            else:
                ended.add(message.partition() or 0)
        reader.close()
        return seen


@pytest.fixture(scope="module", autouse=True)
def _topics_go() -> Iterator[None]:
    """Delete what a file leaves in the tester's own Kafka, which has work with each topic for good.

    It reckons several times a minute how much is written to it and read.
    """
    _touched.clear()
    yield
    if settings.SLUICE_KAFKA_BOOTSTRAP in _touched:
        # Nobody needs it: what is left goes after the next file.
        with suppress(KafkaException):
            Kafka(settings.SLUICE_KAFKA_BOOTSTRAP).delete_all()
