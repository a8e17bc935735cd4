"""The side topic: where the messages of branches wait until it is decided about them."""

import json
import threading
import zlib
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any, Final

from integration.kafka import admin
from integration.kafka.client import Connection
from integration.kafka.errors import TopicUnknownError
from integration.kafka.facts import TopicGoneError
from integration.kafka.slots import Slot
from integration.kafka.upto import Record, TopicReader
from integration.models import Provider
from integration.xa.branch import Branch, Place
from integration.xa.errors import (
    XaSideLostError,
    XaTopicMissingError,
    XaTopicUnsafeError,
    XaUnavailableError,
)
from integration.xa.outgoing import Outgoing
from integration.xa.targets import Packets, Targets

# The header of ours comes first and is taken off again.
HEADER: Final = "sluice-xa"
_DELIVERED: Final = "delivered"


class SideTopic:
    """Safe for several threads, which take turns."""

    def __init__(self, provider: Provider, to: Connection, topic: str) -> None:
        self.topic = topic
        self._provider, self._to = provider, to
        self.targets = Targets(provider)
        self._partitions = 0
        self._reader: TopicReader | None = None
        self._turn = threading.Lock()

    def check(self) -> None:
        """Raises XaTopicMissingError, XaTopicUnsafeError, BrokerUnreachableError."""
        try:
            found = admin.describe(self._provider, self.topic)
        except TopicUnknownError:
            raise XaTopicMissingError(self.topic, self._to.name) from None
        if found.is_compacted:
            reason = "compaction keeps the newest message of a key only"
            raise XaTopicUnsafeError(self.topic, reason, "cleanup.policy=delete")
        self._partitions = found.partitions

    def write(self, slot: Slot, mark: str, messages: Sequence[Outgoing]) -> Place:
        """Write them in the slot's open transaction, and wait until Kafka has them."""
        # One partition for all: they keep their order.
        partition = zlib.crc32(mark.encode()) % self._partitions
        for message in messages:
            ours = _header(mark=mark, owner=slot.id, topic=message.topic)
            headers = [ours, *message.headers]
            slot.send(self.topic, message.value, message.key, headers, partition=partition)
        offsets = [offset for _, offset in slot.flush()]
        if len(offsets) != len(messages) or min(offsets) < 0:
            raise XaUnavailableError(slot.name, "Kafka did not tell where it put the messages")
        return Place(partition, min(offsets), max(offsets), len(offsets))

    def copy(self, branch: Branch, slot: Slot) -> None:
        """Send a branch's messages to their own topics, in the slot's open transaction.

        Raises XaSideLostError, SendFailedError, BrokerUnreachableError.
        """
        packets = Packets(self.targets)
        for message in self._messages(branch):
            if packets.is_full(message):
                slot.flush()
            # With the time of now: a topic deletes at once what comes with one of last month.
            slot.send(message.topic, message.value, message.key, message.headers)
        slot.flush()

    def _messages(self, branch: Branch) -> Iterator[Outgoing]:
        """Its messages, from the first to the last.

        All are read whatever is open meanwhile: the log has the branch, so they are committed.
        Which they are, the mark says; others' lie between them, and a topic may be made anew.
        """
        place, found = branch.place, 0
        with self._turn:
            reader = self._reader = self._reader or TopicReader(
                self._to, self.topic, committed_only=False
            )
            try:
                low, high = (each[place.partition] for each in reader.ends([place.partition]))
                first, end = max(place.first, low), min(place.last + 1, high)
                for message in reader.records(place.partition, first, end):
                    about = about_of(message)
                    if about.get("mark") == branch.mark and "topic" in about:
                        found += 1
                        headers: Any = message.headers()
                        yield Outgoing(about["topic"], message.value(), message.key(), headers[1:])
            except TopicGoneError:
                raise XaTopicMissingError(self.topic, self._to.name) from None
        if found != place.count:
            raise XaSideLostError(branch.xid, self.topic, found, place.count)

    def tell_delivered(self, branch: Branch, slot: Slot) -> None:
        """Say, in the open transaction that sends a branch's messages, that it does so."""
        ours = _header(mark=branch.mark, owner=slot.id, is_=_DELIVERED)
        slot.send(self.topic, None, None, [ours], partition=branch.place.partition)

    def is_delivered(self, branch: Branch, seconds: float) -> bool:
        """Whether a transaction that said so was committed. Ask it behind a fence.

        What it said lies behind the messages, and a topic forgets from its front. Where it may be
        forgotten, so are the messages, and nothing can be delivered again.
        Raises StalledError, XaTopicMissingError, BrokerUnreachableError.
        """
        place = branch.place
        with closing(TopicReader(self._to, self.topic)) as reader:
            try:
                low, high = (each[place.partition] for each in reader.ends([place.partition]))
                behind = max(place.last + 1, low)
                for message in reader.records(place.partition, behind, high, seconds):
                    about = about_of(message)
                    if about.get("mark") == branch.mark and about.get("is_") == _DELIVERED:
                        return True
            except TopicGoneError:
                raise XaTopicMissingError(self.topic, self._to.name) from None
        return False

    def close(self) -> None:
        with self._turn:
            if self._reader is not None:
                self._reader.close()
            self._reader = None


def _header(**about: str) -> tuple[str, bytes]:
    return HEADER, json.dumps(about).encode()


def about_of(message: Record) -> dict[str, str]:
    """What the header of ours says; nothing where there is none."""
    headers: Any = message.headers() or []
    if not headers or headers[0][0] != HEADER:
        return {}
    try:
        about: dict[str, str] = json.loads(headers[0][1])
    except (ValueError, TypeError):
        return {}
    return about
