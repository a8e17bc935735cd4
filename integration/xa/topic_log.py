"""The log of transactions as a compacted topic: the newest record of an Xid says where it stands.

An Xid's records are written under one transactional id. After a fence, therefore, what is read up
to the end is all there is, and nothing can come between the look and what is then written.
"""

import json
import logging
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Final

from integration.kafka import admin
from integration.kafka.client import Connection
from integration.kafka.errors import TopicUnknownError
from integration.kafka.facts import TopicGoneError
from integration.kafka.slots import Slot
from integration.kafka.upto import TopicReader
from integration.models import Provider
from integration.policy.states import BranchState
from integration.store.locks import RELEASE, LockClass
from integration.store.sessions import fetch_all
from integration.xa.branch import Branch, Place
from integration.xa.errors import (
    XaDuplicateError,
    XaTopicMissingError,
    XaTopicUnsafeError,
    XidInvalidError,
)
from integration.xa.seen import Seen, SeenLog
from integration.xa.side_topic import HEADER
from integration.xa.stalled import Stalls
from integration.xa.steps import XaObserver, unobserved
from integration.xa.xid import Xid

log = logging.getLogger(__name__)

# Compaction also drops tombstones in the end (delete.retention.ms, a day by default). Who has not
# read for so long begins anew, so that no branch comes back to life for having missed its end.
FRESH_SECONDS: Final = 600.0
_WAIT: Final = """
WITH held AS MATERIALIZED (SELECT pg_advisory_lock(%s, %s))
SELECT clock_timestamp() FROM held"""


class TopicLog:
    """Implements integration.xa.ports.TransactionLog. Safe for several threads."""

    def __init__(
        self, provider: Provider, to: Connection, topic: str, stalls: Stalls, seen: SeenLog
    ) -> None:
        self.topic = topic
        self.observer: XaObserver = unobserved
        self._seen = seen
        self._provider, self._to, self._stalls = provider, to, stalls
        self._reader: TopicReader | None = None
        self._known: dict[bytes, Branch] = {}
        self._position = 0
        self._read_at = 0.0
        self._turn = threading.Lock()

    def check(self) -> None:
        try:
            found = admin.describe(self._provider, self.topic)
        except TopicUnknownError:
            raise XaTopicMissingError(self.topic, self._to.name) from None
        self._seen.check(Seen(found.topic_uuid, found.facts.low[0]))
        if not found.is_compacted or found.deletes_old:
            reason = "what was not decided for long is deleted from it"
            raise XaTopicUnsafeError(self.topic, reason, "cleanup.policy=compact")
        if found.partitions != 1:
            # What is newer, of two partitions nobody could say.
            raise XaTopicUnsafeError(self.topic, "it has several partitions", "one partition")

    def branches(self) -> list[Branch]:
        with self._turn:
            return sorted(self._read().values(), key=lambda branch: branch.started_at)

    def find(self, xid: Xid) -> Branch | None:
        with self._turn:
            return self._read().get(str(xid).encode())

    def find_fenced(self, xid: Xid) -> Branch | None:
        return self.find(xid)

    def open(self, slot: Slot, xid: Xid, mark: str, write: Callable[[], Place]) -> Branch:
        with self._alone(xid) as now:
            if self.find(xid) is not None:
                raise XaDuplicateError(xid)
            with slot.transaction():
                branch = Branch(
                    xid=xid,
                    state=BranchState.STARTED,
                    owner=slot.id,
                    mark=mark,
                    place=write(),
                    started_at=now,
                )
                self._write(slot, xid, branch)
            return branch

    @contextmanager
    def _alone(self, xid: Xid) -> Iterator[datetime]:
        """Nobody of this installation enters the same Xid meanwhile; gives the time of now.

        In the topic two would not meet: each writes under an id of its own.
        """
        name = f"{self._provider.pk}/{self.topic}/{xid}"
        key = LockClass.XA_START, zlib.crc32(name.encode()) - 2**31
        [(now,)] = fetch_all(_WAIT, key)
        try:
            yield now
        finally:
            fetch_all(RELEASE, key)

    def prepare(self, slot: Slot, branch: Branch) -> Branch:
        prepared = branch.becoming(BranchState.PREPARED)
        with slot.transaction():
            self._write(slot, branch.xid, prepared)
        return prepared

    def finish(
        self,
        slot: Slot,
        branch: Branch,
        deliver: Callable[[], None] | None = None,
        becomes: BranchState | None = None,
    ) -> None:
        with slot.transaction():
            if deliver is not None:
                deliver()
            self._write(slot, branch.xid, branch.becoming(becomes) if becomes else None)

    def _write(self, slot: Slot, xid: Xid, branch: Branch | None) -> None:
        value = None if branch is None else branch.written()
        about = HEADER, json.dumps({"owner": slot.id}).encode()
        slot.send(self.topic, value, str(xid).encode(), [about], partition=0)

    def _read(self) -> dict[bytes, Branch]:
        """Read on to the end as of now, what is open included: it is waited for."""
        try:
            return self._stalls.through(self._read_on)
        except TopicGoneError:
            raise XaTopicMissingError(self.topic, self._to.name) from None

    def _read_on(self, seconds: float) -> dict[bytes, Branch]:
        reader = self._reader = self._reader or TopicReader(self._to, self.topic)
        lows, ends, uuid = reader.ends_and_id([0])
        low, end, began = lows[0], ends[0], time.monotonic()
        is_fresh = began - self._read_at > FRESH_SECONDS
        if not self._seen.is_known(Seen(uuid, low)):
            self._seen.check(Seen(uuid, low))
            is_fresh = True
        if is_fresh:
            self._known, self._position = {}, low
        elif self._position > end:
            self._seen.tell_shortened()
        for message in reader.records(0, self._position, end, seconds):
            key, value = message.key() or b"", message.value()
            branch = None if value is None else _branch(key, value)
            if branch is None:
                self._known.pop(key, None)
            else:
                self._known[key] = branch
            self._position = (message.offset() or 0) + 1
        self._position, self._read_at = end, began
        return self._known

    def close(self) -> None:
        with self._turn:
            if self._reader is not None:
                self._reader.close()
            self._reader, self._read_at = None, 0.0


def _branch(key: bytes, value: bytes) -> Branch | None:
    """None for what is none: somebody else has written to the topic."""
    try:
        return Branch.read(key, value)
    except (ValueError, TypeError, LookupError, XidInvalidError) as problem:
        log.warning("A record %r of a log of transactions is no branch: %s", key[:300], problem)
        return None
