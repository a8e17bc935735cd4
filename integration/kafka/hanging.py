"""Hanging transactions: what becomes of a batch that Kafka has confirmed, and never ends.

Seen with Kafka 4.3 in KRaft: a broker that dies right after it has confirmed a commit can, once it
is back, note the transaction as complete without having written its markers. The producer's next
marker in a partition then decides about the records there, whatever it is the marker of: after one
to abort they are gone.
"""

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin._listoffsets import OffsetSpec

from integration.delivery.relay.ports import OutgoingRow
from integration.kafka import aftermath
from integration.kafka.client import Connection, TalkingAdmin, new_admin
from integration.kafka.errors import BrokerRightsError, BrokerUnreachableError
from integration.kafka.facts import LATEST, TopicGoneError, ask_offsets, collect_offsets

ASK_SECONDS: Final = 5.0
FLUSH_SECONDS: Final = 30.0
# The clocks of the database and of those who write may be so far apart.
CLOCKS_APART_MS: Final = 600_000
# A transaction of somebody else's hides what comes after it; most of them last for moments.
STABLE_SECONDS: Final = 10.0
LOOK_SECONDS: Final = 0.1
NOT_READ: Final = (
    "Read on the topic {}, where it has lost messages that it had confirmed; which of them are "
    "there has to be looked up before they are sent again"
)


def touch(producer: Producer, reader: Consumer, topics: Iterable[str]) -> int:
    """Write a record to each partition within the open transaction, which is to be aborted.

    Returns how many were not confirmed. A topic that is not there has no partitions. Raises
    KafkaException.
    """
    failed: list[object] = []
    for topic in topics:
        metadata = reader.list_topics(topic, ASK_SECONDS).topics[topic]
        for partition in metadata.partitions if metadata.error is None else ():
            producer.produce(
                topic,
                b"",
                b"",
                partition=partition,
                on_delivery=lambda error, _: failed.append(error) if error else None,
            )
    return int(producer.flush(FLUSH_SECONDS)) + len(failed)


def there(to: Connection, rows: Sequence[OutgoingRow], since_ms: int) -> set[int]:
    """The ids of the rows whose record is committed; they were written at `since_ms` or later.

    Nothing of them may be undecided. Known by their contents, as our headers carry an id. Raises
    BrokerUnreachableError, BrokerRightsError, ProviderUnusableError.
    """
    wanted: dict[str, dict[bytes, list[int]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        digest = aftermath.digest_of(row.topic, row.key, row.value, tuple(row.headers))
        wanted[row.topic][digest].append(row.id)
    earliest = min([since_ms, *(row.timestamp_ms for row in rows if row.timestamp_ms)])
    found: set[int] = set()
    with new_admin(to) as admin:
        for topic, digests in wanted.items():
            ranges = _ranges(admin, to.name, topic, earliest)
            try:
                found.update(aftermath.met(aftermath.digests(to, topic, ranges), digests))
            except BrokerRightsError as e:
                raise BrokerRightsError(to.name, NOT_READ.format(topic)) from e
    return found


def _ranges(
    admin: TalkingAdmin, provider: str, topic: str, since_ms: int
) -> dict[int, tuple[int, int]]:
    """By partition where to begin, and where the log ended; all before that is decided."""
    names = admin.list_topics(topic, ASK_SECONDS).topics[topic]
    partitions = dict.fromkeys(names.partitions if names.error is None else (), LATEST)
    try:
        ends = collect_offsets(ask_offsets(admin, topic, partitions, stable=False), provider)
        _await_decided(admin, provider, topic, ends)
        times = dict.fromkeys(ends, OffsetSpec.for_timestamp(since_ms - CLOCKS_APART_MS))
        first = collect_offsets(ask_offsets(admin, topic, times), provider)
    except TopicGoneError:
        return {}
    return {p: (end if first[p] < 0 else first[p], end) for p, end in ends.items()}


def _await_decided(admin: TalkingAdmin, provider: str, topic: str, ends: Mapping[int, int]) -> None:
    deadline = time.monotonic() + STABLE_SECONDS
    while True:
        stable = collect_offsets(ask_offsets(admin, topic, dict.fromkeys(ends, LATEST)), provider)
        if all(stable[p] >= end for p, end in ends.items()):
            return
        if time.monotonic() > deadline:
            raise BrokerUnreachableError(provider, f"a transaction is still open in {topic}")
        time.sleep(LOOK_SECONDS)
