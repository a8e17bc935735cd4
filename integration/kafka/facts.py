"""Topic UUID and watermarks, asked together so that they cost one round trip."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, wait
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import contextmanager
from typing import Any, Final

from confluent_kafka import (
    OFFSET_INVALID,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec

from integration.kafka import listeners, tls
from integration.kafka.client import Connection, TalkingAdmin, connection, new_admin
from integration.kafka.errors import BrokerProtocolError, BrokerRefusedError, BrokerUnreachableError
from integration.kafka.troubles import (
    COORDINATOR_COMING,
    LOGGED_IN,
    MOVING,
    REFUSED,
    UNKNOWN_TOPIC,
    has_code,
    may_be_tls,
    unreachable,
)
from integration.models.provider import Provider
from integration.values import TopicFacts

ANSWER_SECONDS: Final = 5.0
MOVING_PAUSE_SECONDS: Final = 0.05
COORDINATOR_SECONDS: Final = 3.0
COORDINATOR_PAUSE_SECONDS: Final = 0.1
NO_LEADER: Final = "the topic is there, but no broker leads its partitions"

Offsets = dict[int, int]
EARLIEST: Final = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
LATEST: Final = OffsetSpec.latest()  # type: ignore[no-untyped-call]


class TopicGoneError(Exception):
    """The topic is not there; never leaves this package."""


class FactsReader:
    """Asks for the facts of one topic, again and again.

    The watermarks are asked together with the description for as many partitions as there
    were last time; only a changed number of partitions costs a second round.
    """

    def __init__(self, admin: TalkingAdmin, provider: str, topic: str) -> None:
        self._admin = admin
        self._provider = provider
        self._topic = topic
        self._partitions: frozenset[int] = frozenset()

    def read(self) -> TopicFacts | None:
        """The facts now; None when the topic is not there. Raises BrokerUnreachableError.

        The description alone tells whether the topic is there. While it moves or has just been
        created, its leaders may not know yet that they are; that is waited for.
        """
        with refusals_told(self._admin, self._provider):
            return self._read()

    def read_ends(self) -> Offsets | None:
        """Where the logs end, with what is in open transactions; None when the topic is not there.

        Of the partitions that `read` found last. Raises BrokerUnreachableError, also while a
        leader moves.
        """
        with refusals_told(self._admin, self._provider):
            latest = dict.fromkeys(self._partitions, LATEST)
            try:
                asked = ask_offsets(self._admin, self._topic, latest, stable=False)
                return collect_offsets(asked, self._provider)
            except TopicGoneError:
                return None

    def _read(self) -> TopicFacts | None:
        deadline, names = time.monotonic() + ANSWER_SECONDS, TopicCollection([self._topic])
        while True:
            marks = self._ask_marks(self._partitions)
            described = self._admin.describe_topics(names, request_timeout=ANSWER_SECONDS)
            try:
                topic = answer(described[self._topic], self._provider)
            except TopicGoneError:
                return None
            try:
                return self._with_marks(topic, marks)
            except TopicGoneError as e:
                if time.monotonic() > deadline:
                    raise BrokerUnreachableError(self._provider, NO_LEADER) from e
            except BrokerUnreachableError as e:
                if time.monotonic() > deadline or not has_code(e, MOVING):
                    raise
            time.sleep(MOVING_PAUSE_SECONDS)

    def _with_marks(self, topic: Any, marks: list[dict[Any, Any]]) -> TopicFacts:
        partitions = frozenset(partition.id for partition in topic.partitions)
        if partitions != self._partitions:
            self._partitions = partitions
            marks = self._ask_marks(partitions)
        low, high = (collect_offsets(futures, self._provider) for futures in marks)
        return TopicFacts(str(topic.topic_id), low, high)

    def _ask_marks(self, partitions: Iterable[int]) -> list[dict[Any, Any]]:
        return [
            ask_offsets(self._admin, self._topic, dict.fromkeys(partitions, spec))
            for spec in (EARLIEST, LATEST)
        ]


@contextmanager
def asking(provider: Provider) -> Iterator[tuple[Connection, TalkingAdmin]]:
    """A client for questions to the provider's cluster, and why they are not answered."""
    to = connection(provider)
    with new_admin(to) as admin, refusals_told(admin, to.name):
        yield to, admin


@contextmanager
def refusals_told(admin: TalkingAdmin, provider: str) -> Iterator[None]:
    """Tell why a question within was not answered, as far as the cluster is not simply away.

    Raises BrokerRefusedError for what the client noticed, such as a wrong password; of these
    BrokerProtocolError where the port speaks another protocol, and CertificateUntrustedError and
    its like where the broker's certificate is not accepted, or ours is not.
    """
    admin.noticed()
    try:
        yield
    except BrokerRefusedError:
        raise
    except BrokerUnreachableError as e:
        events = admin.noticed()
        refusal = next((error for error in reversed(events) if error.code() in REFUSED), None)
        # Nothing noticed: the connection stands, or another that asks has told it already.
        if events and (refusal is None or refusal.code() not in LOGGED_IN):
            _tell_of_the_port(admin, provider, events, e)
        if refusal is None:
            raise
        raise unreachable(provider, KafkaException(refusal)) from e


def _tell_of_the_port(
    admin: TalkingAdmin, provider: str, events: list[KafkaError], asked: BrokerUnreachableError
) -> None:
    """Raises what is wrong with protocol or certificates; nothing where neither is."""
    listener = listeners.other_than(admin.protocol, admin.addresses)
    if listener is not None:
        raise BrokerProtocolError(provider, admin.protocol, listener) from asked
    if may_be_tls(admin.protocol, events):
        # A broker's advertised address may be the one whose certificate is for another name.
        ports = dict.fromkeys([*tls.named_in(events), *admin.addresses])
        found = tls.refusal(provider, ports, admin.certificates)
        if found is not None:
            raise found from asked


def ask_offsets(
    admin: AdminClient, topic: str, specs: dict[int, OffsetSpec], *, stable: bool = True
) -> dict[TopicPartition, Any]:
    """Ask for one offset of each partition; the end is the last *stable* offset, or the log's."""
    places = {(topic, partition): spec for partition, spec in specs.items()}
    return ask_places(admin, places, stable=stable)


def ask_places(
    admin: AdminClient, specs: Mapping[tuple[str, int], OffsetSpec], *, stable: bool = True
) -> dict[TopicPartition, Any]:
    """Ask the same for partitions of many topics (topic, partition), in a request a broker."""
    if not specs:
        return {}
    futures: dict[TopicPartition, Any] = admin.list_offsets(
        {TopicPartition(*place): spec for place, spec in specs.items()},
        isolation_level=(
            IsolationLevel.READ_COMMITTED if stable else IsolationLevel.READ_UNCOMMITTED
        ),
        request_timeout=ANSWER_SECONDS,
    )
    return futures


def collect_offsets(futures: dict[TopicPartition, Any], provider: str) -> Offsets:
    """Wait for all offsets. Raises TopicGoneError or BrokerUnreachableError, as of a new leader."""
    offsets = {place.partition: answer(each, provider).offset for place, each in futures.items()}
    if OFFSET_INVALID in offsets.values():
        # What the library says, and no error, while a broker comes back: no place in the topic.
        cause = KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE))
        raise unreachable(provider, cause) from cause
    return offsets


def answer(future: Future[Any], provider: str) -> Any:
    """Wait for one answer. Raises TopicGoneError or BrokerUnreachableError."""
    try:
        return future.result(timeout=ANSWER_SECONDS + 1)
    except KafkaException as e:
        if has_code(e, UNKNOWN_TOPIC):
            raise TopicGoneError from e
        raise unreachable(provider, e) from e
    except FutureTimeoutError as e:
        raise unreachable(provider, TimeoutError("no answer in time")) from e


def from_coordinator(ask: Callable[[], Future[Any]]) -> Future[Any]:
    """Ask a group's coordinator until it is there: a cluster's first needs a moment to begin.

    After COORDINATOR_SECONDS its refusal is the answer.
    """
    deadline = time.monotonic() + COORDINATOR_SECONDS
    while True:
        future = ask()
        wait([future], ANSWER_SECONDS + 1)
        is_coming = future.done() and has_code(future.exception(), COORDINATOR_COMING)
        if not is_coming or time.monotonic() > deadline:
            return future
        time.sleep(COORDINATOR_PAUSE_SECONDS)
