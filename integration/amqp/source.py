"""A queue or topic of a JMS broker as one run reads it: a topic of one partition, made up.

A JMS broker knows no offsets. A message gets the next one when it is handed out, and keeps it once
a commit has written it down, with a receipt: a hash of the message's id and body. Then it is
accepted, and once the broker has confirmed that, the receipt is removed. What comes again because a
process died in between is known by its receipt: it is accepted without being handed out.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from integration.amqp.connection import EndedError
from integration.amqp.errors import JmsAddressUnknownError, JmsError, JmsTooLargeError
from integration.amqp.incoming import TooLargeError
from integration.amqp.positions import PARTITION, facts_of
from integration.amqp.receiving import ReceivingLink, Transaction
from integration.amqp.records import arrived, former_receipt
from integration.delivery.ports import LostError
from integration.values import Assignment, Fetched, Record, TopicFacts, Trouble, TroubleKind

log = logging.getLogger(__name__)

ANSWER_SECONDS: Final = 5.0
CLOSE_SECONDS: Final = 2.0
# Brokers give up whoever says nothing for longer than, as a rule, half a minute.
BEAT_SECONDS: Final = 5.0
# All that is read of a message that is too large comes again each time.
TOO_LARGE_SECONDS: Final = 60.0


class Receipts(Protocol):
    """What the database knows of messages that are applied and maybe not accepted.

    Raises LostError when it is gone.
    """

    def known(self) -> set[bytes]:
        """All receipts of the queue."""

    def is_held(self, topic_uuid: str, offset: int) -> bool:
        """Return whether a failure has the message of that offset: its row holds all of it."""

    def forget(self, receipts: Sequence[bytes]) -> None:
        """Remove those of messages that nobody will be sent again."""

    def forget_old(self) -> set[bytes]:
        """Remove and return those that are older than what a broker may still send again."""


@dataclass(slots=True)
class _Given:
    """A message that was handed out."""

    record: Record
    receipt: bytes | None
    delivery: Any


@dataclass(slots=True)
class _Accepting:
    """Messages whose accept is not confirmed yet."""

    transaction: Transaction
    receipts: list[bytes]


class AmqpSource:
    """Implements integration.delivery.ports.Source.

    Make it in the process that uses it, after any fork. `open_link` raises JmsError.
    """

    # An accept that waits fills the broker's window.
    commit_every_seconds: float = 0.0

    def __init__(
        self, open_link: Callable[[], ReceivingLink], receipts: Receipts, topic_uuid: str
    ) -> None:
        self._open_link, self._receipts = open_link, receipts
        self._facts = facts_of(topic_uuid)
        self._link: ReceivingLink | None = None
        # Why the link is of no use any more, where that was met between two fetches.
        self._ended: EndedError | None = None
        self._too_large_until = 0.0
        self._attached = False
        self._next = 0
        self._given: dict[int, _Given] = {}
        self._again: deque[_Given] = deque()
        self._known: set[bytes] = set()
        self._met: list[_Given] = []
        self._accepting: list[_Accepting] = []
        self._has_forgotten = False
        # The engine's thread, and the one that keeps the connection alive meanwhile.
        self._turn = threading.RLock()
        self._over = threading.Event()
        self._beats: threading.Thread | None = None

    def receipt(self, offset: int) -> bytes | None:
        """What is to be written down with a message of that offset; None for one without an id."""
        given = self._given.get(offset)
        return None if given is None else given.receipt

    def assigned(self) -> Assignment | None:
        return None

    def attach(self, positions: Mapping[int, int]) -> None:
        with self._turn:
            self._attached = PARTITION in positions
            if not self._attached:
                self._drop()
                return
            self._next = at = positions[PARTITION]
            back = [self._given.pop(offset) for offset in sorted(self._given) if offset >= at]
            self._again.extendleft(reversed(back))

    def fetch(self, limit: int, wait_seconds: float) -> Fetched:
        fetched = Fetched()
        if not self._attached:
            return fetched
        with self._turn:
            try:
                if self._ended is not None:
                    raise self._ended
                self._take(self._opened(), limit, wait_seconds, fetched)
            except JmsError as problem:
                fetched.troubles.append(Trouble(TroubleKind.OTHER, None, str(problem)))
            except (EndedError, TimeoutError) as problem:
                self._drop()
                fetched.troubles.append(Trouble(TroubleKind.OTHER, None, str(problem)))
                if isinstance(problem, TooLargeError):
                    self._too_large_until = time.monotonic() + TOO_LARGE_SECONDS
        return fetched

    def read_ahead(self, limit: int) -> Sequence[Record]:
        del limit
        return ()

    def facts(self) -> TopicFacts | None:
        """What there is to read from. Raises JmsError, LostError, JmsTooLargeError."""
        with self._turn:
            if time.monotonic() < self._too_large_until:
                raise JmsTooLargeError(str(TooLargeError()))
            try:
                self._opened()
            except JmsAddressUnknownError:
                return None
        return self._facts

    def ends(self) -> Mapping[int, int] | None:
        return None if self.facts() is None else self._facts.high

    def commit_to_group(self, positions: Mapping[int, int]) -> None:
        """Accept what lies before the position, and what was known already."""
        at = positions.get(PARTITION)
        with self._turn:
            if at is None or self._link is None:
                return
            if self._is_nameless_head(at):
                at += 1
            settled = [self._given.pop(o) for o in sorted(self._given) if o < at]
            try:
                self._accept(self._link, [*self._met, *settled])
            except (EndedError, TimeoutError) as problem:
                log.warning("Messages of a JMS broker were not accepted: %s", problem)
                self._drop()

    def _is_nameless_head(self, at: int) -> bool:
        """Return whether a message without an id is what the position stands at, held by its row.

        Sent again it would not be known, and be held, and released, once more. Raises LostError.
        """
        given = self._given.get(at)
        if given is None or given.receipt is not None:
            return False
        return self._receipts.is_held(self._facts.topic_uuid, at)

    def close(self) -> None:
        self._over.set()
        with self._turn:
            link = self._link
            if link is not None and self._accepting:
                try:
                    link.hear(CLOSE_SECONDS)
                    self._forget_confirmed()
                except (EndedError, TimeoutError, LostError) as problem:
                    log.warning("Messages of a JMS broker were not accepted: %s", problem)
            self._drop()
        if self._beats is not None:
            self._beats.join()

    def _opened(self) -> ReceivingLink:
        """Raises JmsError, LostError."""
        if self._link is None:
            link = self._open_link()
            try:
                self._known = self._receipts.known()
            except BaseException:
                # Nobody else knows it, and the broker lets no second one in under its name.
                link.close()
                raise
            self._link = link
            if self._beats is None:
                self._beats = threading.Thread(target=self._beat, name="amqp", daemon=True)
                self._beats.start()
        return self._link

    def _drop(self) -> None:
        """End the connection; whatever is not accepted comes again."""
        link, self._link, self._ended = self._link, None, None
        self._given.clear()
        self._again.clear()
        self._met.clear()
        self._accepting.clear()
        if link is not None:
            link.close()

    def _take(self, link: ReceivingLink, limit: int, seconds: float, fetched: Fetched) -> None:
        """Raises EndedError, TimeoutError."""
        records: list[Record] = []
        while self._again and len(records) < limit:
            records.append(self._handed_out(self._again.popleft()))
        if len(records) < limit:
            for received in link.take(limit - len(records), 0.0 if records else seconds):
                record, receipt = arrived(received.data, self._next)
                known = self._known_receipt(record, receipt)
                given = _Given(record, known or receipt, received.delivery)
                if known is not None:
                    self._met.append(given)
                else:
                    records.append(self._handed_out(given))
        self._forget_confirmed()
        if records:
            fetched.records[PARTITION] = records
        elif link.is_at_end(seconds):
            fetched.drained.add(PARTITION)
            fetched.ends[PARTITION] = self._next
            self._forget_old()

    def _known_receipt(self, record: Record, receipt: bytes | None) -> bytes | None:
        """The receipt by which it is known; None where it is new."""
        if not self._known or receipt is None:
            return None
        told_by = (receipt, former_receipt(record))
        return next((one for one in told_by if one in self._known), None)

    def _handed_out(self, given: _Given) -> Record:
        record = given.record
        record.offset = self._next
        self._given[self._next] = given
        self._next += 1
        return record

    def _accept(self, link: ReceivingLink, settled: Sequence[_Given]) -> None:
        """Raises EndedError, TimeoutError."""
        if not settled:
            return
        transaction = link.accept([given.delivery for given in settled], ANSWER_SECONDS)
        receipts = [given.receipt for given in settled if given.receipt is not None]
        self._met.clear()
        # A second copy that the broker had sent before is known as well.
        self._known.update(receipts)
        self._accepting.append(_Accepting(transaction, receipts))
        self._forget_confirmed()

    def _forget_confirmed(self) -> None:
        over: Iterable[_Accepting] = [one for one in self._accepting if one.transaction.is_over]
        gone = [receipt for one in over for receipt in one.receipts]
        if gone:
            self._accepting = [one for one in self._accepting if not one.transaction.is_over]
            self._receipts.forget(gone)
            self._known.difference_update(gone)

    def _forget_old(self) -> None:
        """At the end of all that waits: what did not come again had been accepted.

        Its accept had no answer any more, so nobody could remove its receipt, by which a message
        of the same id would be taken for a repeat. What is being accepted now keeps its own.
        """
        if not (self._has_forgotten or self._met or self._given or self._accepting):
            self._has_forgotten = True
            self._known -= self._receipts.forget_old()

    def _beat(self) -> None:
        """Keep the connection alive while a handler works."""
        while not self._over.wait(BEAT_SECONDS):
            with self._turn:
                try:
                    if self._link is not None:
                        self._link.hear()
                except EndedError as problem:
                    # The next fetch tells; it would not meet what the broker has rolled back.
                    self._ended = problem
