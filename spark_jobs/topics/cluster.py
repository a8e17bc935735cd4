"""Questions of bulk jobs to a Kafka cluster: whose topic it is, where it begins and ends.

Plans are made of the answers, and a preview reads its few records here, without Spark.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import contextmanager
from datetime import datetime
from operator import methodcaller
from typing import Any, Final, NamedTuple, TypeVar

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec

from spark_jobs.errors import JobError

Client = TypeVar("Client")
ANSWER_SECONDS: Final = 10.0
# What goes wrong comes with the answers; the library's own lines would go to stderr.
_QUIET: Final[Mapping[str, Any]] = {"log_level": 2}
# As integration.kafka.client has them for whoever reads: nothing is guessed, nothing is committed.
_CONSUMER: Final[Mapping[str, Any]] = {
    **_QUIET,
    "group.id": "sluice-bulk",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",
    "isolation.level": "read_committed",
    "enable.partition.eof": True,
    "allow.auto.create.topics": False,
}
_EARLIEST: Final = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
_LATEST: Final = OffsetSpec.latest()  # type: ignore[no-untyped-call]
_SECRET: Final = ("sasl.password", "sasl.oauthbearer.client.secret", "ssl.key.pem")
# ruff: noqa: SLF001 - the library spells the codes of its own errors with an underscore
_END_REACHED: Final = KafkaError._PARTITION_EOF
_NO_TOPIC: Final = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.UNKNOWN_TOPIC_ID,
        KafkaError.TOPIC_EXCEPTION,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
    }
)
# The call of a method that fails inside the library: see integration.kafka.source.
_headers: Final = methodcaller("headers")
# A header's name that is not UTF-8 makes the library withhold all of them.
_UNREADABLE: Final = (("sluice-headers-unreadable", b"1"),)


class Topic(NamedTuple):
    """A topic as the cluster describes it now.

    By partition `low` is the first offset still there, `high` the end that a read_committed
    reader reaches. The UUID is another one once the topic was deleted and created again.
    """

    uuid: str
    low: Mapping[int, int]
    high: Mapping[int, int]


class Read(NamedTuple):
    """One record that was read here."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]


class Cluster:
    """One cluster, by the settings of `Arguments.kafka`. Clients are made when they are needed."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._settings = dict(settings)

    def topic(self, name: str) -> Topic:
        """Raises JobError UNKNOWN_TOPIC, CLUSTER_SILENT, KAFKA_UNUSABLE."""
        with self._asking(name) as admin:
            futures = admin.describe_topics(TopicCollection([name]), request_timeout=ANSWER_SECONDS)
            described = _answer(futures[name])
            partitions = [partition.id for partition in described.partitions]
            low, high = (
                self._offsets(admin, name, dict.fromkeys(partitions, spec))
                for spec in (_EARLIEST, _LATEST)
            )
        return Topic(str(described.topic_id), low, high)

    def offsets_at(self, name: str, partitions: Sequence[int], at: datetime) -> dict[int, int]:
        """Map partitions to the first offset written at `at` or later; without one they are out."""
        spec = OffsetSpec.for_timestamp(int(at.timestamp() * 1_000))
        with self._asking(name) as admin:
            offsets = self._offsets(admin, name, dict.fromkeys(partitions, spec))
        return {partition: offset for partition, offset in offsets.items() if offset >= 0}

    def read(self, name: str, begin: Mapping[int, int], end: Mapping[int, int]) -> Iterator[Read]:
        """The records between these offsets, partition after partition, until nobody asks on.

        Raises JobError CLUSTER_SILENT.
        """
        consumer = made(Consumer, {**self._settings, **_CONSUMER})
        try:
            for partition in sorted(begin):
                if begin[partition] < end[partition]:
                    consumer.assign([TopicPartition(name, partition, begin[partition])])
                    yield from self._until(consumer, end[partition])
        finally:
            consumer.close()

    def _until(self, consumer: Consumer, end: int) -> Iterator[Read]:
        while True:
            message = consumer.poll(ANSWER_SECONDS)
            error = None if message is None else message.error()
            if error is not None and error.code() == _END_REACHED:
                return
            if message is None or error is not None:
                raise self._silent("no answer came in time" if error is None else error.str())
            record = _read(message)
            if record.offset < end:
                yield record
            if record.offset >= end - 1:
                return

    @contextmanager
    def _asking(self, topic: str) -> Iterator[AdminClient]:
        client = made(AdminClient, {**self._settings, **_QUIET})
        try:
            yield client
        except KafkaException as e:
            error = e.args[0] if e.args and isinstance(e.args[0], KafkaError) else None
            if error is not None and error.code() in _NO_TOPIC:
                raise JobError(
                    "UNKNOWN_TOPIC",
                    f"The topic {topic} is not on the cluster.",
                    "Correct its name, or create it.",
                ) from None
            raise self._silent(str(e) if error is None else error.str()) from e
        except FutureTimeoutError as e:
            raise self._silent("no answer came in time") from e

    def _offsets(
        self, admin: AdminClient, topic: str, specs: Mapping[int, OffsetSpec]
    ) -> dict[int, int]:
        """The end is the last stable offset: what lies behind it may still be taken back."""
        if not specs:
            return {}
        futures = admin.list_offsets(
            {TopicPartition(topic, partition): spec for partition, spec in specs.items()},
            isolation_level=IsolationLevel.READ_COMMITTED,
            request_timeout=ANSWER_SECONDS,
        )
        return {place.partition: _answer(future).offset for place, future in futures.items()}

    def _silent(self, why: str) -> JobError:
        return JobError(
            "CLUSTER_SILENT",
            f"Kafka does not answer, or refuses us: {_without_secrets(why, self._settings)}.",
            "Check the provider with its Test, and whether the brokers run; then drive it again.",
        )


def _answer(future: "Future[Any]") -> Any:
    return future.result(timeout=ANSWER_SECONDS + 1)


def _read(message: Message) -> Read:
    try:
        headers = _headers(message) or ()
    except (SystemError, UnicodeDecodeError):
        headers = _UNREADABLE
    _, timestamp_ms = message.timestamp()
    place = (message.partition() or 0, message.offset() or 0)
    return Read(*place, timestamp_ms, message.key(), message.value(), headers)


def made(kind: Callable[[dict[str, Any]], Client], settings: dict[str, Any]) -> Client:
    """A client of these settings. Raises JobError KAFKA_UNUSABLE."""
    try:
        return kind(settings)
    except (KafkaException, ValueError, TypeError) as e:
        raise unusable(str(e), settings) from None


def unusable(why: str, settings: Mapping[str, Any]) -> JobError:
    """The settings make no client; whatever is secret in them stays so."""
    return JobError(
        "KAFKA_UNUSABLE",
        "No Kafka client can be made of the provider's settings: "
        f"{_without_secrets(why, settings)}.",
        "Correct the provider under Set up, then let the run go on.",
    )


def _without_secrets(text: str, settings: Mapping[str, Any]) -> str:
    for name in _SECRET:
        if settings.get(name):
            text = text.replace(str(settings[name]), "***")
    return text
