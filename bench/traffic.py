"""Topics and messages, made with the client library alone."""

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

FLUSH_SECONDS: Final = 60.0
BATCH: Final = 10_000
READ_WITHIN_SECONDS: Final = 120.0
# What goes wrong comes back from the calls; the library's own lines would mix with the figures.
QUIET: Final = {"log_level": 2}


def producer(bootstrap: str, **more: object) -> Producer:
    """An idempotent producer that keeps the order of its messages."""
    properties: dict[str, Any] = {
        **QUIET,
        "bootstrap.servers": bootstrap,
        "enable.idempotence": True,
        "acks": "all",
        "compression.type": "lz4",
        "queue.buffering.max.messages": 1_000_000,
        "queue.buffering.max.kbytes": 512 * 1_024,
        **more,
    }
    return Producer(properties)


def make_topic(bootstrap: str, name: str, partitions: int = 1) -> None:
    """Create a topic; returns when it is there."""
    admin = AdminClient({**QUIET, "bootstrap.servers": bootstrap})
    made = admin.create_topics([NewTopic(name, num_partitions=partitions, replication_factor=1)])
    made[name].result(timeout=30)


Key = Callable[[bytes], bytes]


def produce(
    bootstrap: str,
    topic: str,
    payloads: Iterable[bytes],
    key_of: Key | None = None,
    *,
    partition: int = 0,
    timestamp_ms: int = 0,
    **record: Any,
) -> int:
    """Write all payloads, in order; returns how many. Raises KafkaException when one failed.

    `key_of` gives a payload's record key; without it records have none. `timestamp_ms` is when
    they claim to have been written; 0 is now. `record` is what else each is, such as
    its headers.
    """
    failures: list[KafkaError] = []

    def reported(error: KafkaError | None, _: object) -> None:
        with contextlib.suppress(Exception):
            if error is not None:
                failures.append(error)

    writing = producer(bootstrap, **{"linger.ms": 20})
    count = 0
    for payload in payloads:
        key = None if key_of is None else key_of(payload)
        place = {"partition": partition, "timestamp": timestamp_ms, **record}
        put(writing, topic, payload, key=key, on_delivery=reported, **place)
        count += 1
    if writing.flush(FLUSH_SECONDS):
        raise TimeoutError(f"not all messages of {topic} were written")
    if failures:
        raise KafkaException(failures[0])
    return count


def put(writing: Producer, topic: str, value: bytes, **record: Any) -> None:
    """Put a record into a producer's queue, and wait while it is full.

    Raises KafkaException when the producer is broken.
    """
    while True:
        try:
            writing.produce(topic, value, **record)
        except BufferError:
            writing.poll(0.1)
        else:
            writing.poll(0)
            return


def end_of(bootstrap: str, topic: str) -> int:
    """The offset behind the last record of a topic with one partition."""
    reader = _reader(bootstrap)
    try:
        return int(reader.get_watermark_offsets(TopicPartition(topic, 0), timeout=30)[1])
    finally:
        reader.close()


def read(bootstrap: str, topic: str, first: int, count: int) -> list[tuple[bytes, bytes]]:
    """Key and value of so many records of a topic with one partition. Raises TimeoutError."""
    reader = _reader(bootstrap)
    pairs: list[tuple[bytes, bytes]] = []
    try:
        reader.assign([TopicPartition(topic, 0, first)])
        while len(pairs) < count:
            messages = reader.consume(min(count - len(pairs), BATCH), FLUSH_SECONDS)
            if not messages:
                raise TimeoutError(f"{topic} has {len(pairs)} records behind {first}, not {count}")
            pairs += [(record.key() or b"", record.value() or b"") for record in messages]
    finally:
        reader.close()
    return pairs


def committed(bootstrap: str, topic: str, partitions: int) -> Iterator[Any]:
    """Yield all records of a topic that are committed. Raises TimeoutError."""
    more = {"isolation.level": "read_committed", "enable.partition.eof": True}
    reader = _reader(bootstrap, **more)
    ended: set[int | None] = set()
    deadline = time.monotonic() + READ_WITHIN_SECONDS
    try:
        reader.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
        while len(ended) < partitions:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{topic} was not read within {READ_WITHIN_SECONDS:.0f} s")
            for record in reader.consume(BATCH, 1.0):
                error = record.error()
                if error is None:
                    yield record
                elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - its public name
                    ended.add(record.partition())
    finally:
        reader.close()


def first_from(bootstrap: str, topic: str, partition: int, offset: int) -> Any:
    """The first record from an offset on, committed or not; None where there is none."""
    more = {"isolation.level": "read_uncommitted", "enable.partition.eof": True}
    reader = _reader(bootstrap, **more)
    try:
        reader.assign([TopicPartition(topic, partition, offset)])
        came = reader.consume(1, FLUSH_SECONDS)
        return came[0] if came and came[0].error() is None else None
    finally:
        reader.close()


def _reader(bootstrap: str, **more: object) -> Consumer:
    properties: dict[str, Any] = {
        **QUIET,
        "bootstrap.servers": bootstrap,
        "group.id": "bench",
        "enable.auto.commit": False,
        **more,
    }
    return Consumer(properties)
