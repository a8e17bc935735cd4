"""The real Source: assigned partitions of one topic, read by the client library."""

import contextlib
import functools
import logging
import time
from collections import deque
from collections.abc import Mapping, Sequence
from datetime import datetime
from operator import methodcaller
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from django.conf import settings

from integration.kafka.client import Connection, bounded, connection, new_admin, new_consumer
from integration.kafka.errors import BrokerUnreachableError, GroupRefusedError
from integration.kafka.facts import FactsReader
from integration.kafka.membership import Membership
from integration.kafka.troubles import (
    END_REACHED,
    ONE_BROKER,
    RAISED,
    error_of,
    kind_of,
    sentence,
    trouble,
    words_of,
)
from integration.models.provider import Provider
from integration.models.queue import Queue
from integration.policy.groups import default_name
from integration.values import (
    Assignment,
    Fetched,
    Record,
    TopicFacts,
    Trouble,
    TroubleKind,
    moment_of,
)

log = logging.getLogger(__name__)

# Closing waits for the answer to a commit under way: over half a minute, as measured with a
# silent broker. The commit is a copy for lag tools, and no group waits for this consumer to leave.
CLOSE_SECONDS: Final = 2.0
# So long one record at a position is waited for.
PATIENCE_SECONDS: Final = 3.0
# What is read ahead lies in memory beside the batch in work: with large messages only a few.
AHEAD_BYTES: Final = 2**20
# So many records tell their usual size, and so much the log adds to each.
SAMPLED: Final = 500
RECORD_BYTES: Final = 12
# To parse so many takes about as long as the database takes for a short statement.
AHEAD_AT_ONCE: Final = 20

# A header's name that is not UTF-8 makes the library withhold all of them. The message comes
# all the same, with this in their place: a stranger's record must not stop the queue.
UNREADABLE: Final = [("sluice-headers-unreadable", b"1")]
# Called this way the interpreter always notices that the library failed; a plain method call
# that has become hot skips that check, and the error comes up in some later statement.
headers_of: Final = methodcaller("headers")


def consumer_group(queue_name: str) -> str:
    """The consumer group that shows a queue's position to lag tools, unless it joins another.

    It names the deployment, because several may read from one cluster.
    """
    return default_name(settings.SLUICE_DEPLOYMENT, queue_name)


def group_of(queue: Queue) -> str:
    """The consumer group that shows this queue's position, and that its runs join in group mode."""
    return queue.group_id or consumer_group(queue.name)


def open_source(provider: Provider, *, topic: str, queue_name: str) -> "KafkaSource":
    """Make a source that is in no group. Raises ProviderUnusableError."""
    return KafkaSource(connection(provider), topic, consumer_group(queue_name))


def source_of(queue: Queue) -> "KafkaSource":
    """Make the source of one run, in group mode a member. Raises ProviderUnusableError."""
    to, group = connection(queue.provider), group_of(queue)
    if not queue.joins_group:
        return KafkaSource(to, queue.topic, group)
    membership = Membership(to, queue.topic, group, queue.group_protocol)
    return KafkaSource(to, queue.topic, group, membership)


def first_waiting(
    provider: Provider, topic: str, positions: Mapping[int, int]
) -> dict[int, datetime]:
    """Kafka's timestamp of the record at each position (partition -> next offset).

    A partition that gives nothing within three seconds, or a record whose time is unknown, is
    left out. No group is touched.
    Raises ProviderUnusableError.
    """
    stamps: dict[int, datetime | None] = {}
    source = open_source(provider, topic=topic, queue_name="waiting")
    try:
        source.attach(positions)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while len(stamps) < len(positions) and time.monotonic() < deadline:
            for partition, records in source.fetch(1, 0.2).records.items():
                stamps.setdefault(partition, moment_of(records[0].timestamp_ms))
    finally:
        source.close()
    return {partition: at for partition, at in stamps.items() if at is not None}


def average_bytes(provider: Provider, topic: str, positions: Mapping[int, int]) -> float | None:
    """Reckon the size of a record from some hundred at these positions; None where none comes.

    No group is touched. Raises ProviderUnusableError.
    """
    source = open_source(provider, topic=topic, queue_name="sizes")
    try:
        source.attach(positions)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            found = [r for of_one in source.fetch(SAMPLED, 0.2).records.values() for r in of_one]
            if found:
                sizes = [len(r.key or b"") + len(r.value or b"") + RECORD_BYTES for r in found]
                return sum(sizes) / len(sizes)
    finally:
        source.close()
    return None


class KafkaSource:
    """Implements integration.delivery.ports.Source.

    Make it in the process that uses it, after any fork. One thread at a time may fetch; facts()
    may be asked from another. The client that reads joins no group: a membership is another one.
    """

    # It is for lag tools.
    commit_every_seconds: float = 1.0

    def __init__(
        self, to: Connection, topic: str, group: str, membership: Membership | None = None
    ) -> None:
        self._topic = topic
        self._next: dict[int, int] = {}
        self._ahead, self._ahead_bytes = Fetched(), 0
        self._noticed: deque[Trouble] = deque(maxlen=100)
        self._to, self._group = to, group
        self._facts = FactsReader(new_admin(to), to.name, topic)
        self._membership = membership
        self._closed = False

    def assigned(self) -> Assignment | None:
        return None if self._membership is None else self._membership.assigned()

    @functools.cached_property
    def _consumer(self) -> Consumer:
        """Made when it is first attached, and not a moment before.

        A consumer that knows the cluster but has nothing to read lets its connection to the
        leader rest; assigned then, it mostly waits for the library's next one-second tick
        (measured: half of all runs took 1,055 ms from its making, against 10 ms to a record).
        """
        callbacks = {"error_cb": self._notice, "on_commit": self._group_committed}
        return new_consumer(self._to, self._group, callbacks)

    def attach(self, positions: Mapping[int, int]) -> None:
        self._next = dict(positions)
        self._ahead, self._ahead_bytes = Fetched(), 0
        places = [TopicPartition(self._topic, p, offset) for p, offset in positions.items()]
        try:
            if places:
                self._consumer.assign(places)
            else:
                self._consumer.unassign()
        except KafkaException as e:
            self._note(e)

    def fetch(self, limit: int, wait_seconds: float) -> Fetched:
        fetched = self._kept(limit)
        taken = fetched.count
        try:
            if not (taken or fetched.drained or fetched.troubles):
                first = self._consumer.poll(0 if self._noticed else wait_seconds)
                if first is not None:
                    self._sort([first], fetched)
                    taken = 1
            if 0 < taken < limit:
                # Only what is there already: waiting for more would hold back the first.
                self._sort(self._consumer.consume(limit - taken, 0), fetched)
        except RAISED as e:
            self._note(e)
            self._read_again(fetched)
        else:
            self._advance(fetched)
        while self._noticed:
            fetched.troubles.append(self._noticed.popleft())
        return fetched

    def read_ahead(self, limit: int) -> Sequence[Record]:
        wanted = min(limit - self._ahead.count, AHEAD_AT_ONCE)
        if not self._next or wanted <= 0 or self._ahead_bytes > AHEAD_BYTES:
            return ()
        try:
            messages = self._consumer.consume(wanted, 0)
        except RAISED as e:
            self._note(e)
            self._read_again(Fetched())
            return ()
        self._ahead_bytes += sum(map(len, messages))
        return self._sort(messages, self._ahead)

    def _kept(self, limit: int) -> Fetched:
        """Return what was read ahead; where it is more than is wanted, it is read again later."""
        ahead = self._ahead
        if ahead.count > limit:
            self.attach(self._next)
            return Fetched()
        self._ahead, self._ahead_bytes = Fetched(), 0
        return ahead

    def _advance(self, fetched: Fetched) -> None:
        """Remember what was handed out."""
        for partition, records in fetched.records.items():
            self._next[partition] = records[-1].offset + 1
        self._next.update(fetched.ends)

    def _read_again(self, fetched: Fetched) -> None:
        """The library has thrown away what it had fetched: go on behind what was handed out."""
        self._advance(fetched)
        self.attach(self._next)

    def _sort(self, messages: list[Message], fetched: Fetched) -> list[Record]:
        """Make records of messages; a loop without calls of our own, as it runs for each one."""
        records, made = fetched.records, []
        for message in messages:
            error = message.error()
            if error is not None:
                self._sort_event(message, error, fetched)
                continue
            # Never None on a message without an error.
            partition: int = message.partition()  # type: ignore[assignment]
            kind, timestamp_ms = message.timestamp()
            try:
                headers = headers_of(message)
            except (SystemError, UnicodeDecodeError):
                headers = UNREADABLE
            record = Record(
                partition,
                message.offset(),  # type: ignore[arg-type]
                timestamp_ms if kind else None,
                message.key(),
                message.value(),
                headers,
            )
            made.append(record)
            of_partition = records.get(partition)
            if of_partition is None:
                records[partition] = [record]
            else:
                of_partition.append(record)
            if partition in fetched.drained:
                fetched.drained.discard(partition)
                del fetched.ends[partition]
        return made

    def _sort_event(self, message: Message, error: KafkaError, fetched: Fetched) -> None:
        partition = message.partition()
        if partition is not None and partition < 0:
            partition = None
        if error.code() != END_REACHED:
            fetched.troubles.append(trouble(error, partition))
        elif partition in self._next:
            fetched.drained.add(partition)
            fetched.ends[partition] = message.offset() or 0

    def facts(self) -> TopicFacts | None:
        facts, membership = self._facts.read(), self._membership
        if facts is not None and membership is not None and (reason := membership.refusal):
            if membership.is_away:
                raise BrokerUnreachableError(self._to.name, reason)
            raise GroupRefusedError(self._to.name, membership.group, reason)
        return facts

    def ends(self) -> Mapping[int, int] | None:
        return self._facts.read_ends()

    def commit_to_group(self, positions: Mapping[int, int]) -> None:
        if self._membership is not None:
            self._membership.commit(positions)
            return
        places = [TopicPartition(self._topic, p, offset) for p, offset in positions.items()]
        if not places or self._closed:
            return
        try:
            self._consumer.commit(offsets=places, asynchronous=True)
        except KafkaException as e:
            log.warning("The position for lag tools was not written: %s", e)

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._membership is not None:
            self._membership.close()
        # The consumer knows us by its callbacks: left to the collector, it would outlive its run by
        # hours, and a process can have no more than about a thousand of them.
        consumer = self.__dict__.pop("_consumer", None)
        if consumer is None:
            return
        try:
            bounded(consumer.close, CLOSE_SECONDS)
        except (KafkaException, RuntimeError) as e:
            log.warning("The consumer of %s did not close cleanly: %s", self._topic, e)

    # Callbacks run inside poll() and consume(). An exception in one makes the library throw
    # away everything it has just fetched, so none of them can raise.

    def _notice(self, error: KafkaError) -> None:
        with contextlib.suppress(Exception):
            if error.fatal():
                self._noticed.append(Trouble(TroubleKind.OTHER, None, sentence(error)))
            elif error.code() not in ONE_BROKER:
                self._noticed.append(trouble(error, None))

    def _group_committed(self, error: KafkaError | None, _places: list[TopicPartition]) -> None:
        with contextlib.suppress(Exception):
            if error is not None:
                log.warning("The position for lag tools was not written: %s", sentence(error))

    def _note(self, exception: Exception) -> None:
        error = error_of(exception)
        kind = TroubleKind.OTHER if error is None else kind_of(error.code())
        self._noticed.append(Trouble(kind, None, words_of(exception)))
