"""Traces of a database's work in Kafka: its last batch, and which records were written."""

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from datetime import datetime
from hashlib import sha256
from typing import Final

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from integration.kafka import admin
from integration.kafka.client import Connection, connection, new_consumer
from integration.kafka.errors import BrokerUnreachableError
from integration.kafka.source import UNREADABLE, headers_of
from integration.kafka.troubles import END_REACHED, unreachable
from integration.kafka.watermark import cluster_of, watermark_of
from integration.models.provider import Provider
from integration.values import Headers, Record

# Without a record for so long the cluster is taken for silent, as the client says nothing then.
SILENCE_SECONDS: Final = 30.0
OPEN_SECONDS: Final = 15.0
PORTION: Final = 1_000
# Of records whose reader keeps them for a while.
SMALL_PORTION: Final = 20
# Nothing is ever committed under it: positions are given.
GROUP: Final = "sluice-aftermath"

Digest = bytes


def digest_of(topic: str, key: bytes | None, value: bytes | None, headers: Headers) -> Digest:
    """Return what a record is known by; our headers carry an id, so no two messages share it."""
    digest = sha256()
    named = [part for name, content in headers for part in (name.encode(), content)]
    for part in (topic.encode(), key, value, *named):
        content = part or b""
        digest.update(len(content).to_bytes(8, "big"))
        digest.update(content)
    return digest.digest()


def last_batch(provider: Provider, transactional_id: str) -> str | None:
    """The id of the last batch in Kafka, "" for none yet, None when Kafka knows nothing of it.

    Raises BrokerUnreachableError, ProviderUnusableError.
    """
    to = connection(provider)
    with closing(new_consumer(to, transactional_id)) as reader:
        return watermark_of(reader, to.name, OPEN_SECONDS)


def cluster(provider: Provider) -> str:
    """The cluster's own id, "" where it tells none.

    Raises BrokerUnreachableError, ProviderUnusableError.
    """
    to = connection(provider)
    with closing(new_consumer(to, GROUP)) as reader:
        return cluster_of(reader, to.name, OPEN_SECONDS)


def written_since(provider: Provider, topics: Mapping[str, datetime]) -> Iterator[Digest]:
    """The digest of every committed record of these topics, each from its time on.

    A topic that is not there has none. Raises BrokerUnreachableError, ProviderUnusableError.
    """
    for topic, since in topics.items():
        facts = admin.topic_facts(provider, topic)
        if facts is None:
            continue
        first = admin.offsets_at(provider, facts, topic, since)
        ranges = {p: (first[p], facts.high[p]) for p in first}
        yield from digests(connection(provider), topic, ranges)


def digests(to: Connection, topic: str, ranges: Mapping[int, tuple[int, int]]) -> Iterator[Digest]:
    """The digests of what `read` yields. Raises as that does."""
    for record in read(to, topic, ranges):
        yield digest_of(topic, record.key, record.value, tuple(record.headers or ()))


def met(written: Iterable[Digest], wanted: dict[Digest, list[int]]) -> Iterator[int]:
    """The rows of `wanted` whose record was written; what is met is taken out of it.

    Rows with equal contents are met in their order, one for each record.
    """
    for digest in written:
        rows = wanted.get(digest)
        if rows:
            yield rows.pop(0)
            if not rows:
                del wanted[digest]
        if not wanted:
            return


def records_between(
    provider: Provider, topic: str, partition: int, offsets: tuple[int, int]
) -> Iterator[Record]:
    """The committed records of `offsets` (first, first after) in their order.

    Raises BrokerUnreachableError, ProviderUnusableError.
    """
    return read(connection(provider), topic, {partition: offsets}, SMALL_PORTION)


def read(
    to: Connection, topic: str, ranges: Mapping[int, tuple[int, int]], portion: int = PORTION
) -> Iterator[Record]:
    """Yield the committed records of `ranges`: of each partition (first, first after).

    Raises BrokerUnreachableError, ProviderUnusableError.
    """
    left = {p: after for p, (first, after) in ranges.items() if first < after}
    with closing(new_consumer(to, GROUP)) as consumer:
        consumer.assign([TopicPartition(topic, p, ranges[p][0]) for p in left])
        heard_at = time.monotonic()
        while left:
            messages = _portion(consumer, to.name, portion)
            if not messages and time.monotonic() - heard_at > SILENCE_SECONDS:
                raise BrokerUnreachableError(to.name, f"nothing more of {topic} comes")
            heard_at = time.monotonic() if messages else heard_at
            yield from _within(messages, left, to.name)


def _portion(consumer: Consumer, provider: str, most: int) -> list[Message]:
    try:
        return consumer.consume(most, 0.5)
    except KafkaException as e:
        raise unreachable(provider, e) from e


def _within(messages: Iterable[Message], left: dict[int, int], provider: str) -> Iterator[Record]:
    """Those before the end of their range; what came to its end is taken out of `left`."""
    for message in messages:
        error, partition, offset = message.error(), message.partition(), message.offset()
        if error is not None:
            if error.code() != END_REACHED:
                raise unreachable(provider, KafkaException(error))
            left.pop(-1 if partition is None else partition, None)
        elif partition in left and offset is not None:
            if offset < left[partition]:
                yield _record(message, partition, offset)
            if offset + 1 >= left[partition]:
                del left[partition]


def _record(message: Message, partition: int, offset: int) -> Record:
    kind, timestamp_ms = message.timestamp()
    try:
        headers = headers_of(message)
    except (SystemError, UnicodeDecodeError):
        headers = UNREADABLE
    at = timestamp_ms if kind else None
    return Record(partition, offset, at, message.key(), message.value(), headers)
