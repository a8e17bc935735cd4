"""Producers in transactions under ids that others may take over: who fences last is the owner."""

import contextlib
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from integration.kafka.client import Connection, bounded, delivery_seconds, new_producer
from integration.kafka.errors import ProviderUnusableError, SendFailedError
from integration.kafka.sessions import CLOSE_SECONDS, COMMIT_SECONDS, OPEN_SECONDS, TAKEN_BACK
from integration.kafka.troubles import (
    FENCED,
    FOR_THE_RECORD,
    RAISED,
    error_of,
    has_code,
    sentence,
    unreachable,
)

REPORT_SECONDS: Final = 5.0
FLUSH_SLICE_SECONDS: Final = 0.02
FULL_QUEUE_SECONDS: Final = 0.1
# After a refused record an abort may take as long as delivery.timeout.ms; a fence aborts as well.
ABORT_SECONDS: Final = 0.1
COORDINATORS: Final = "__transaction_state"
# Where the records came to lie is told by the reports of success alone.
REPORTS: Final = {"delivery.report.only.error": False}

Headers = list[tuple[str, bytes | None]]


class SlotLostError(Exception):
    """Another one has fenced the id, or a commit got no answer; only a fence tells what is.

    `may_be_done` where the transaction may have been committed. Does not leave integration.xa.
    """

    def __init__(self, problem: BaseException, *, may_be_done: bool = False) -> None:
        super().__init__(str(problem))
        self.may_be_done = may_be_done


class Slot:
    """One transactional id, and the producer that has it. For one thread at a time."""

    def __init__(
        self, name: str, to: Connection, tuning: Mapping[str, object], transactional_id: str
    ) -> None:
        """Connect and fence. Raises ProviderUnusableError, BrokerUnreachableError."""
        self.name = name
        self.id = transactional_id
        self._to = Connection(to.provider_id, to.name, to.properties, {**tuning, **to.producing})
        self._producer: Producer | None = None
        self._places: list[tuple[int, int]] = []
        self._failure: KafkaError | None = None
        self._is_fatal = False
        self.fence()

    def fence(self) -> None:
        """Shut out whoever has the id: what it had begun is committed or taken back by then.

        Raises ProviderUnusableError, BrokerUnreachableError.
        """
        self._drop()
        producer = new_producer(self._to, self.id, {"error_cb": self._notice, **REPORTS})
        try:
            # Asked before any broker is connected, the library waits half a second to ask again.
            producer.list_topics(COORDINATORS, OPEN_SECONDS)
            producer.init_transactions(OPEN_SECONDS)
        except KafkaException as problem:
            if has_code(problem, {KafkaError.INVALID_TRANSACTION_TIMEOUT}):
                words = "its transaction.timeout.ms is longer than the brokers allow"
                raise ProviderUnusableError(self._to.name, words) from problem
            raise unreachable(self._to.name, problem) from problem
        self._producer, self._is_fatal = producer, False

    def is_usable(self) -> bool:
        return self._producer is not None and not self._is_fatal

    def close(self) -> None:
        self._drop()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """What is sent inside is visible at once at the end; after an error nothing of it ever is.

        Raises SendFailedError, and SlotLostError where somebody has to fence and look.
        """
        producer = self._opened()
        self._places, self._failure = [], None
        try:
            producer.begin_transaction()
            yield
            self.flush()
        except RAISED as problem:
            self._drop()
            raise SlotLostError(problem) from problem
        except SlotLostError:
            self._drop()
            raise
        except BaseException:
            self._abort(producer)
            raise
        try:
            bounded(lambda: producer.commit_transaction(COMMIT_SECONDS), COMMIT_SECONDS)
        except RAISED as problem:
            self._drop()
            may_be_done = not has_code(problem, FENCED)
            raise SlotLostError(problem, may_be_done=may_be_done) from problem

    def send(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        headers: Headers,
        partition: int = -1,
    ) -> None:
        """Inside `transaction`; without a partition the key decides.

        Raises SendFailedError for one that cannot be sent at all.
        """
        producer: Any = self._opened()
        while True:
            try:
                producer.produce(
                    topic,
                    value,
                    key,
                    partition=partition,
                    headers=headers,
                    on_delivery=self._reported,
                )
                return
            except BufferError:
                producer.poll(FULL_QUEUE_SECONDS)
            except (TypeError, ValueError, OverflowError) as problem:
                raise SendFailedError(self.name, 1, str(problem)) from problem
            except KafkaException as problem:
                self._tell_of(error_of(problem))
                raise

    def flush(self) -> list[tuple[int, int]]:
        """Wait until Kafka has everything; partition and offset of each record, as they were sent.

        Raises SendFailedError, SlotLostError.
        """
        producer = self._opened()
        deadline = time.monotonic() + delivery_seconds(self._to) + REPORT_SECONDS
        left = producer.flush(FLUSH_SLICE_SECONDS)
        while left and self._failure is None and time.monotonic() < deadline:
            left = producer.flush(FLUSH_SLICE_SECONDS)
        self._tell_of(self._failure)
        if left:
            raise SendFailedError(self.name, left, "it gave no answer in time")
        return self._places

    def _tell_of(self, error: KafkaError | None) -> None:
        if error is None:
            return
        if error.code() in FENCED or error.fatal():
            raise SlotLostError(KafkaException(error))
        if error.code() in FOR_THE_RECORD or error is self._failure:
            raise SendFailedError(self.name, 1, sentence(error))

    def _abort(self, producer: Producer) -> None:
        """Without it readers would wait for the transaction's end until its time is over."""
        try:
            bounded(lambda: producer.abort_transaction(ABORT_SECONDS), ABORT_SECONDS + 1)
        except RAISED:
            self._drop()
            # Who takes the id next does it otherwise. Somebody else may have had it meanwhile, and
            # nobody has looked: the next transaction begins with a fence.
            with contextlib.suppress(Exception):
                self.fence()
            self._drop()

    def _opened(self) -> Producer:
        if self._producer is None:
            raise SlotLostError(RuntimeError("it is not open"))
        return self._producer

    def _drop(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            with contextlib.suppress(*RAISED):
                producer.purge()
                bounded(lambda: _let_go(producer), CLOSE_SECONDS)

    # Called inside the library's calls, where nothing may raise.

    def _reported(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self._places.append((_number(message.partition()), _number(message.offset())))
        elif error.code() not in TAKEN_BACK and self._failure is None:
            self._failure = error

    def _notice(self, error: KafkaError) -> None:
        if error.fatal():
            self._is_fatal = True


def _let_go(producer: Producer) -> None:
    producer.flush(0)


def _number(value: int | None) -> int:
    return -1 if value is None else value
