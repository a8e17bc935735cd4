"""Connections by which applications send to Kafka, with or without transactions of Kafka."""

import contextlib
import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from integration.kafka.client import Connection, bounded, delivery_seconds, new_producer
from integration.kafka.errors import NotTransactionalError, SendFailedError
from integration.kafka.troubles import sentence, unreachable, words_of

log = logging.getLogger(__name__)

OPEN_SECONDS: Final = 15.0
COMMIT_SECONDS: Final = 30.0
# So long after a record is given up (delivery.timeout.ms) its report has come.
REPORT_SECONDS: Final = 5.0
FULL_QUEUE_SECONDS: Final = 0.1
CLOSE_SECONDS: Final = 2.0

# What has neither failed nor is left when everything was waited for is confirmed.
REPORTS: Final = {"delivery.report.only.error": True}
# What a rollback throws away is reported as failed.
TAKEN_BACK: Final = frozenset(
    {KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT}  # noqa: SLF001 - librdkafka's own codes
)

Headers = Sequence[tuple[str, bytes | None]] | Mapping[str, bytes | None]


class KafkaConnection:
    """A producer that one thread at a time sends by, through `session`."""

    def __init__(
        self, name: str, to: Connection, tuning: Mapping[str, object], *, transactional_id: str = ""
    ) -> None:
        """Connect; with an id it sends in transactions of Kafka, and what had it is shut out.

        Raises ProviderUnusableError, BrokerUnreachableError.
        """
        self.name = name
        self.failure: str | None = None
        self.failures = 0
        self.is_transactional = bool(transactional_id)
        self._wait = delivery_seconds(to) + REPORT_SECONDS
        self._has_begun = False
        self._is_broken = False
        producing = {**tuning, **to.producing, **REPORTS}
        tuned = Connection(to.provider_id, to.name, to.properties, producing)
        callbacks = {"error_cb": self._notice}
        self._producer: Producer = new_producer(tuned, transactional_id or None, callbacks)
        self._produce: Any = self._producer.produce
        self._report = self._reported
        if transactional_id:
            try:
                self._producer.init_transactions(OPEN_SECONDS)
            except KafkaException as problem:
                raise unreachable(to.name, problem) from problem

    def is_usable(self) -> bool:
        return not self._is_broken

    def close(self) -> None:
        if self._has_begun:
            self._abort()
        with contextlib.suppress(KafkaException):
            bounded(self._close, CLOSE_SECONDS)

    def send(
        self, topic: str, value: bytes | None, key: bytes | None, headers: Headers | None
    ) -> None:
        """Hand a record over; `flush` or `commit` tell whether Kafka has it.

        Raises SendFailedError for one that cannot be sent at all.
        """
        if self.is_transactional and not self._has_begun:
            self._producer.begin_transaction()
            self._has_begun = True
        given = headers or None
        while True:
            try:
                self._produce(topic, value, key, on_delivery=self._report, headers=given)
                return
            except BufferError:
                self._producer.poll(FULL_QUEUE_SECONDS)
            except KafkaException as problem:
                raise SendFailedError(self.name, 1, words_of(problem)) from problem

    def flush(self) -> None:
        """Wait until Kafka has everything. Raises SendFailedError."""
        left = self._producer.flush(self._wait)
        failures, self.failures = self.failures + left, 0
        if failures:
            reason, self.failure = self.failure or "it gave no answer in time", None
            self._is_broken = self._is_broken or bool(left)
            raise SendFailedError(self.name, failures, reason)

    def commit(self) -> None:
        """Make all that was sent since the last one visible at once. Raises SendFailedError.

        Whether it happened is not known where Kafka gave no answer: the connection is of no use
        then, and the next one of its id finishes or aborts what it had begun.
        """
        self._check_transactional()
        if not self._has_begun:
            return
        self.flush()
        try:
            bounded(lambda: self._producer.commit_transaction(COMMIT_SECONDS), COMMIT_SECONDS)
        except KafkaException as problem:
            self._is_broken = True
            raise SendFailedError(self.name, 1, words_of(problem)) from problem
        self._has_begun = False

    def rollback(self) -> None:
        """Take back all that was sent since the last commit."""
        self._check_transactional()
        if self._has_begun:
            self._abort()

    def _abort(self) -> None:
        self._has_begun = False
        self.failure, self.failures = None, 0
        try:
            bounded(lambda: self._producer.abort_transaction(COMMIT_SECONDS), COMMIT_SECONDS)
        except KafkaException as problem:
            # Kafka aborts it by itself once its time is over.
            self._is_broken = True
            log.warning("A transaction of %s was not aborted: %s", self.name, problem)

    def _check_transactional(self) -> None:
        if not self.is_transactional:
            raise NotTransactionalError(self.name)

    def _close(self) -> None:
        self._producer.flush(0)

    # Called inside the library's calls, where nothing may raise.

    def _reported(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None and error.code() not in TAKEN_BACK:
            self.failures += 1
            self.failure = self.failure or sentence(error)

    def _notice(self, error: KafkaError) -> None:
        if error.fatal():
            self._is_broken = True
