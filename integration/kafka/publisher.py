"""The real Publisher: one Kafka transaction a batch, with the batch's id as the watermark."""

import logging
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final
from uuid import UUID

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from integration.delivery.relay.ports import (
    FencedError,
    OutgoingRow,
    Refused,
    Sent,
    Unavailable,
    Verdict,
    nothing_to_prepare,
)
from integration.delivery.relay.steps import RelayObserver, RelayStep
from integration.kafka import admin, hanging
from integration.kafka.ailing import ailing
from integration.kafka.client import (
    Connection,
    bounded,
    consumer_properties,
    delivery_seconds,
    new_client,
    new_consumer,
    new_producer,
)
from integration.kafka.errors import BrokerUnreachableError, ProviderUnusableError
from integration.kafka.refusals import UnknownTopics, refused_by
from integration.kafka.troubles import (
    FENCED,
    FOR_THE_RECORD,
    RAISED,
    error_of,
    has_code,
    sentence,
    unreachable,
    words_of,
)
from integration.kafka.watermark import RELAY_TOPIC, cluster_of, watermark_of
from integration.policy.branches import Branch

log = logging.getLogger(__name__)

OPEN_SECONDS: Final = 15.0
# So long after a record is given up (delivery.timeout.ms) every report has come.
REPORT_SECONDS: Final = 5.0
FLUSH_SLICE_SECONDS: Final = 0.02
WATERMARK_SECONDS: Final = 5.0
COMMIT_SECONDS: Final = 30.0
# With librdkafka 2.16 an abort after a refused record takes 5 ms, half a second, or the 20 s of
# delivery.timeout.ms (2 of 25, measured); opening the id anew aborts it as well, in a second.
ABORT_SECONDS: Final = 0.1
FULL_QUEUE_SECONDS: Final = 0.1
UNSENDABLE: Final = "UNSENDABLE"
TOO_LONG: Final = (
    "its transaction.timeout.ms is longer than the brokers allow (transaction.max.timeout.ms)"
)
_DISCONNECTED: Final = KafkaError(
    KafkaError.NETWORK_EXCEPTION, "the connection broke during the transaction"
)


class _Reports:
    """The delivery reports of one batch: of failures alone, as the producer is set up.

    What has neither failed nor is left when everything was waited for is confirmed.
    """

    def __init__(self, seconds: float) -> None:
        self.failures: dict[int, KafkaError] = {}
        self._seconds = seconds

    def take(self, index: int, error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            self.failures[index] = error

    def await_all(self, producer: Producer) -> int:
        """Wait for the reports; return how many are missing.

        flush() raises nothing: what is left and each report have to be looked at. After the
        first failure the library sends nothing more of the transaction, and waiting is in vain.
        """
        deadline = time.monotonic() + self._seconds
        left = producer.flush(FLUSH_SLICE_SECONDS)
        while left and not self.failures and time.monotonic() < deadline:
            left = producer.flush(FLUSH_SLICE_SECONDS)
        return left

    def verdict(self, rows: Sequence[OutgoingRow], left: int) -> Verdict | None:
        """Return what the reports say; None when every record is confirmed."""
        refused = [i for i, error in self.failures.items() if error.code() in FOR_THE_RECORD]
        if refused:
            # The broker refuses the client's whole packet: the largest in it is the suspect.
            culprit = max(refused, key=lambda i: (len(rows[i].value or b""), -i))
            return refused_by(culprit, self.failures[culprit])
        if self.failures:
            return Unavailable(sentence(next(iter(self.failures.values()))))
        if left:
            return Unavailable(f"{left} records were not confirmed in time")
        return None


class KafkaPublisher:
    """Implements integration.delivery.relay.ports.Publisher. Make it after the fork."""

    def __init__(self, to: Connection, transactional_id: str) -> None:
        self._to = to
        self._id = transactional_id
        self._producer: Producer | None = None
        # Refusals come in twos and more: after the first a second producer is kept connected,
        # as opening a new one may wait half a second for the coordinator.
        self._spare: Producer | None = None
        self._reader: Consumer | None = None
        self._unknown = UnknownTopics()
        # A connection broke since the producer was made: see bounded().
        self._is_shaken = False
        self.has_hanging = False

    def open(self) -> None:
        self.close()
        self.has_hanging = False
        # Both begin to connect meanwhile.
        self._reader = new_consumer(self._to, self._id)
        producer = self._new_producer()
        admin.ensure_topic(self._to, RELAY_TOPIC)
        self._start(producer)

    def _new_producer(self) -> Producer:
        self._is_shaken = False
        return new_producer(self._to, self._id, {"error_cb": self._shake})

    def _shake(self, _error: KafkaError) -> None:
        """Runs inside the library's calls; must not raise."""
        self._is_shaken = True

    def _start(self, producer: Producer) -> None:
        try:
            producer.init_transactions(OPEN_SECONDS)
        except KafkaException as e:
            if has_code(e, {KafkaError.INVALID_TRANSACTION_TIMEOUT}):
                raise ProviderUnusableError(self._to.name, TOO_LONG) from e
            raise unreachable(self._to.name, e) from e
        self._producer = producer
        # Brokers that did not answer on the way here are not the ones it is connected to now.
        self._is_shaken = False

    def cluster(self) -> str:
        return cluster_of(self._opened_reader, self._to.name, OPEN_SECONDS)

    def watermark(self) -> str | None:
        reader = self._opened_reader
        try:
            return watermark_of(reader, self._to.name, OPEN_SECONDS)
        except BrokerUnreachableError:
            if not self._is_left_pending():
                raise
            log.warning("Kafka holds an offset of %s that no transaction ends", self._id)
            self.has_hanging = True
            self._end_pending()
            return watermark_of(reader, self._to.name, OPEN_SECONDS)

    def _is_left_pending(self) -> bool:
        """Return whether the watermark does not come, though its broker answers.

        Every transaction of this id ended as it was opened. What is pending even so belongs to
        none, and nobody would ever end it: brokers that die can leave such an offset behind.
        """
        at_once = {"isolation.level": "read_uncommitted"}
        asking = new_client(self._to, {**consumer_properties(self._to, self._id), **at_once})
        try:
            asking.committed([TopicPartition(RELAY_TOPIC, 0)], WATERMARK_SECONDS)
        except KafkaException:
            return False
        finally:
            asking.close()
        return True

    def _end_pending(self) -> None:
        """End what is pending of this id as undone: a marker to abort ends all of a producer's.

        The markers of transactions that did commit lie before it, and count before it. Raises
        FencedError, BrokerUnreachableError.
        """
        with self._begun() as producer:
            self._put_watermark(producer, 0, "")
            producer.abort_transaction(COMMIT_SECONDS)

    def abort_hanging(self, topics: Collection[str]) -> None:
        with self._begun() as producer:
            failed = hanging.touch(producer, self._opened_reader, topics)
            producer.abort_transaction(COMMIT_SECONDS)
        if failed:
            log.warning("%s partitions take nothing, and keep what has no end there", failed)
            # As after a refused record: see _abort.
            self._close_producer()
            self._start(self._new_producer())

    def ailing(self, topics: Collection[str]) -> dict[str, str]:
        return ailing(self._to, topics)

    def there(self, rows: Sequence[OutgoingRow], since_ms: int) -> set[int]:
        return hanging.there(self._to, rows, since_ms)

    def write_watermark(self, text: str) -> None:
        with self._begun() as producer:
            self._put_watermark(producer, 0, text)
            producer.commit_transaction(COMMIT_SECONDS)

    @contextmanager
    def _begun(self) -> Iterator[Producer]:
        """Begin a transaction beside the batches, which the caller ends.

        What fails within is raised as FencedError or BrokerUnreachableError.
        """
        producer = self._opened_producer
        try:
            producer.begin_transaction()
            yield producer
        except RAISED as e:
            self._check_fence(e)
            raise unreachable(self._to.name, e) from e

    def publish(
        self,
        batch: UUID | Branch,
        rows: Sequence[OutgoingRow],
        stamp: Callable[[], None],
        observer: RelayObserver,
        prepare: Callable[[], None] = nothing_to_prepare,
    ) -> Verdict:
        producer = self._producer
        if producer is None:
            return Unavailable("the publisher is not open")
        refused = self._unknown.first_in(rows, self._opened_reader)
        if refused is not None:
            return refused
        try:
            producer.begin_transaction()
            observer(RelayStep.BEGUN)
            trouble = self._write(producer, rows, stamp, observer)
            if trouble is not None:
                self._unknown.remember(trouble, rows)
                return self._abort(producer, trouble)
            self._put_watermark(producer, rows[-1].id if rows else 0, str(batch))
            observer(RelayStep.WATERMARKED)
            prepare()
            producer.commit_transaction(COMMIT_SECONDS)
        except RAISED as e:
            self._check_fence(e)
            return Unavailable(words_of(e))
        observer(RelayStep.COMMITTED)
        return Sent()

    def _write(
        self,
        producer: Producer,
        rows: Sequence[OutgoingRow],
        stamp: Callable[[], None],
        observer: RelayObserver,
    ) -> Verdict | None:
        """Produce all rows and wait for every report; None when all are confirmed."""
        reports = _Reports(delivery_seconds(self._to) + REPORT_SECONDS)
        try:
            for index, row in enumerate(rows):
                refused = _produce(producer, row, partial(reports.take, index), index)
                if refused is not None:
                    return refused
        except RAISED:
            # Something failed while the transaction was being filled; the reports may tell what.
            left = reports.await_all(producer)
            verdict = reports.verdict(rows, left)
            if isinstance(verdict, Refused):
                return verdict
            raise
        observer(RelayStep.PRODUCED)
        # The client sends meanwhile, in a thread of its own.
        stamp()
        left = reports.await_all(producer)
        observer(RelayStep.FLUSHED)
        return reports.verdict(rows, left)

    def _put_watermark(self, producer: Producer, number: int, text: str) -> None:
        """Put it into the open transaction. Raises KafkaException, _DISCONNECTED among them."""
        if self._is_shaken:
            raise KafkaException(_DISCONNECTED)
        place = TopicPartition(RELAY_TOPIC, 0, number, text)
        group = self._opened_reader.consumer_group_metadata()
        bounded(
            lambda: producer.send_offsets_to_transaction([place], group, WATERMARK_SECONDS),
            WATERMARK_SECONDS + 1,
        )

    def _abort(self, producer: Producer, verdict: Verdict) -> Verdict:
        """Nothing of the batch stays: that is sure as soon as a new producer has opened the id.

        It is needed anyway. After a refused record the library's numbering has a hole that
        spoils the next transaction. Raises BrokerUnreachableError when nothing is sure.
        """
        try:
            producer.abort_transaction(ABORT_SECONDS)
        except RAISED as e:
            self._check_fence(e)
        self._close_producer()
        self._start(self._taken_spare())
        self._spare = self._new_producer()
        return verdict

    def _taken_spare(self) -> Producer:
        spare, self._spare = self._spare, None
        if spare is None:
            return self._new_producer()
        # What it has to tell is of the time before it was needed.
        spare.poll(0)
        return spare

    def _check_fence(self, exception: Exception) -> None:
        if has_code(exception, FENCED):
            raise FencedError(self._id) from exception

    @property
    def _opened_producer(self) -> Producer:
        if self._producer is None:
            raise BrokerUnreachableError(self._to.name, "the publisher is not open")
        return self._producer

    @property
    def _opened_reader(self) -> Consumer:
        if self._reader is None:
            raise BrokerUnreachableError(self._to.name, "the publisher is not open")
        return self._reader

    def close(self) -> None:
        self._close_producer()
        self._spare = None
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()

    def _close_producer(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            # An open transaction is left to the next owner's fence; waiting would change nothing.
            producer.purge()


def _produce(
    producer: Producer, row: OutgoingRow, report: "partial[None]", index: int
) -> Refused | None:
    """Hand one record to the client; a verdict when it cannot even be queued."""
    partition = -1 if row.partition is None else row.partition
    headers = row.headers if isinstance(row.headers, list) else list(row.headers)
    while True:
        try:
            producer.produce(
                row.topic,
                row.value,
                row.key,
                partition=partition,
                headers=headers,
                # 0: the time when it is written.
                timestamp=row.timestamp_ms or 0,
                on_delivery=report,
            )
        except BufferError:
            # The client's queue is full; serving reports makes room.
            producer.poll(FULL_QUEUE_SECONDS)
        except KafkaException as e:
            error = error_of(e)
            if error is None or error.code() not in FOR_THE_RECORD:
                raise
            return refused_by(index, error)
        except (TypeError, ValueError, OverflowError) as e:
            return Refused(index, UNSENDABLE, f"No record can be made of it: {e}")
        else:
            return None
