"""The commits in which Kafka's transaction decides: what handlers publish is out with them.

The database's transaction is prepared, then Kafka's commits, which is the decision, then the
prepared one commits. Kafka is the last resource: it cannot prepare, and need not.
"""

import logging
import time
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from integration.delivery.ports import LostError
from integration.delivery.relay.ports import (
    FencedError,
    OutgoingRow,
    Publisher,
    Refused,
    Sent,
    Unavailable,
    Verdict,
)
from integration.delivery.relay.steps import unobserved
from integration.delivery.steps import Observer, Step
from integration.errors import IntegrationError
from integration.policy.branches import Branch, Decision, decided
from integration.policy.failure import Failure, FailureClass
from integration.values import Outgoing

log = logging.getLogger(__name__)

# A broker that is started again answers within seconds; a branch of a run that gave up is decided
# by the next one.
SETTLE_SECONDS: Final = 30.0
SETTLE_PAUSE_SECONDS: Final = 0.5

Open = Callable[[int], Publisher]


class NotPublishedError(IntegrationError):
    """Kafka did not take what a batch publishes; nothing of the batch is left."""

    code = "NOT_PUBLISHED"

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.text)
        self.failure = failure


class InDoubtError(LostError):
    """A branch stays prepared, and whoever owns the partition next settles it.

    Nobody's fault: it does not count as the end of a process.
    """

    code = "COMMIT_IN_DOUBT"

    def __init__(self, branch: Branch, why: str) -> None:
        super().__init__(f"The commit {branch} is in doubt: {why}")


class Preparable(Protocol):
    """An open transaction of a batch. Raises Django's database errors."""

    def prepare(self, branch: Branch) -> None:
        """Write it to disk under the branch's name: it outlives this session, and the server."""

    def finish(self, branch: Branch, decision: Decision) -> None:
        """Commit it, or roll it back."""


class TwoPhase:
    """The two-phase commits of one run. `open_publisher` makes the publisher of a partition.

    One publisher for each partition: its transactional id is what a later owner shuts an earlier
    one out by.
    """

    def __init__(self, open_publisher: Open, observer: Observer) -> None:
        self._open = open_publisher
        self._observer = observer
        self._publishers: dict[int, tuple[int, Publisher]] = {}

    def commit(
        self, branch: Branch, rows: Sequence[Outgoing], databases: Sequence[Preparable]
    ) -> None:
        """Commit the batch in Kafka and in the databases, or nowhere.

        They are prepared in this order and finished in the other: while any is prepared, the first
        one is. Raises NotPublishedError where nothing of it was done, LostError where the partition
        is somebody else's by now or the branch has to be settled by the next owner, and what the
        databases raise.
        """
        prepared: list[Preparable] = []
        try:
            verdict = self._publish(
                branch, rows, lambda: self._prepare(branch, databases, prepared)
            )
        except FencedError as e:
            raise LostError(str(e)) from e
        except BaseException:
            self._forget(branch.partition)
            if len(prepared) < len(databases):
                # Kafka was not asked to commit, and nobody will.
                self._finish(branch, Decision.ROLLBACK, prepared)
            raise
        if isinstance(verdict, Refused):
            raise NotPublishedError(Failure(FailureClass.PERMANENT, verdict.code, verdict.text))
        if isinstance(verdict, Unavailable) and not prepared:
            self._forget(branch.partition)
            raise NotPublishedError(_outage(verdict.text))
        decision = Decision.COMMIT if isinstance(verdict, Sent) else self._settled(branch)
        self._observer.step(Step.DECIDED)
        self._finish(branch, decision, databases)
        if decision is Decision.ROLLBACK:
            raise NotPublishedError(_outage("Kafka did not commit what the batch publishes."))

    def _prepare(
        self, branch: Branch, databases: Sequence[Preparable], prepared: list[Preparable]
    ) -> None:
        """Prepare them in turn, and note those that are."""
        self._observer.step(Step.WRITTEN)
        for database in databases:
            database.prepare(branch)
            prepared.append(database)
            self._observer.step(Step.PREPARED)

    def _finish(self, branch: Branch, decision: Decision, databases: Sequence[Preparable]) -> None:
        for database in reversed(databases):
            database.finish(branch, decision)
            self._observer.step(Step.FINISHED)

    def _publish(
        self, branch: Branch, rows: Sequence[Outgoing], prepare: Callable[[], None]
    ) -> Verdict:
        outgoing = [
            OutgoingRow(
                branch.next_offset,
                row.topic,
                row.partition,
                row.key,
                row.value,
                row.headers,
                row.timestamp_ms,
            )
            for row in rows
        ]
        try:
            publisher = self._publisher(branch)
            return publisher.publish(branch, outgoing, _at_once, unobserved, prepare)
        except (FencedError, LostError, NotPublishedError):
            raise
        except IntegrationError as e:
            # Not after it was asked to commit: whoever does not hear of that returns a verdict.
            return Unavailable(str(e))

    def _publisher(self, branch: Branch) -> Publisher:
        """Return the publisher of the branch's partition, opened under its epoch."""
        epoch, publisher = self._publishers.get(branch.partition, (None, None))
        if publisher is not None and epoch == branch.epoch:
            return publisher
        self._forget(branch.partition)
        publisher = self._open(branch.partition)
        self._publishers[branch.partition] = branch.epoch, publisher
        opened(publisher, branch)
        return publisher

    def _settled(self, branch: Branch) -> Decision:
        """Ask Kafka what became of the decision. Raises InDoubtError when it does not answer.

        With the publisher that there is: to make another one takes a look into the database, whose
        session has to stay outside of transactions until the prepared one is finished.
        """
        _, publisher = self._publishers.pop(branch.partition)
        deadline = time.monotonic() + SETTLE_SECONDS
        while True:
            try:
                decision = decision_of(branch, publisher)
            except IntegrationError as e:
                if time.monotonic() > deadline:
                    raise InDoubtError(branch, str(e)) from e
                time.sleep(SETTLE_PAUSE_SECONDS)
                continue
            if decision is Decision.UNKNOWN:
                raise InDoubtError(branch, "Kafka does not know it any more.")
            return decision

    def _forget(self, partition: int) -> None:
        _, publisher = self._publishers.pop(partition, (None, None))
        if publisher is not None:
            publisher.close()

    def close(self) -> None:
        """Leave; what is open in Kafka is thrown away as its partition is opened again."""
        for partition in list(self._publishers):
            self._forget(partition)


def opened(publisher: Publisher, first: Branch) -> None:
    """Open it for `first`, and leave a first mark: one that is missing later was forgotten.

    So it is where the mark is of a later branch: a database of this name that was thrown away, or
    of which this is an earlier state, decided it. Nothing of the partition is prepared now, or its
    owner would not be at this branch, so that no mark is needed any more. Raises FencedError,
    BrokerUnreachableError, TopicRefusedError, ProviderUnusableError.
    """
    publisher.open()
    if decided(first, publisher.watermark()) is Decision.UNKNOWN:
        publisher.write_watermark("")


def decision_of(branch: Branch, publisher: Publisher) -> Decision:
    """Shut out whoever prepared the branch, then read what Kafka has decided; closes `publisher`.

    In this order: nothing is decided any more once the mark is read. Raises FencedError,
    BrokerUnreachableError, TopicRefusedError, ProviderUnusableError.
    """
    try:
        publisher.open()
        return decided(branch, publisher.watermark())
    finally:
        publisher.close()


def _outage(text: str) -> Failure:
    return Failure(FailureClass.OUTAGE, NotPublishedError.code, text)


def _at_once() -> None:
    """No row is marked: a record of an outbox is not needed."""
