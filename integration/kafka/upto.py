"""Reading a topic from one place up to another, and no further."""

import time
from collections.abc import Iterator
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, Message, TopicCollection, TopicPartition

from integration.kafka.client import Connection, consumer_properties, new_admin, new_client
from integration.kafka.errors import BrokerUnreachableError
from integration.kafka.facts import (
    EARLIEST,
    LATEST,
    Offsets,
    TopicGoneError,
    answer,
    ask_offsets,
    collect_offsets,
    refusals_told,
)
from integration.kafka.troubles import END_REACHED, OUT_OF_RANGE, UNKNOWN_TOPIC, kind_of, sentence
from integration.values import TroubleKind

Record = Message
POLL_SECONDS: Final = 0.1
# So long nothing may come of what is there.
ANSWER_SECONDS: Final = 10.0
# Nothing joins this group, and nothing is committed to it.
GROUP: Final = "sluice-xa"
# The end of a log is asked for often, and each look waits for one answer without a record.
QUICK: Final = {"fetch.wait.max.ms": 5}


class StalledError(Exception):
    """A transaction that is open keeps what is behind `offset` from being read.

    Does not leave integration.xa.
    """

    def __init__(self, topic: str, partition: int, offset: int) -> None:
        super().__init__(f"a transaction is open in {topic}, partition {partition}, at {offset}")
        self.topic, self.partition, self.offset = topic, partition, offset


class TopicReader:
    """Reads one topic; what is committed only, or everything. For one thread at a time."""

    def __init__(self, to: Connection, topic: str, *, committed_only: bool = True) -> None:
        self.topic = topic
        self._to, self._is_committed_only = to, committed_only
        level = "read_committed" if committed_only else "read_uncommitted"
        properties = {**consumer_properties(to, GROUP), **QUICK, "isolation.level": level}
        self._consumer: Consumer = new_client(to, {**properties, "error_cb": lambda _error: None})
        self._admin = new_admin(to)

    def ends(self, partitions: list[int]) -> tuple[Offsets, Offsets]:
        """The first offset that is left and the end, transactions that are open included.

        Raises TopicGoneError, BrokerUnreachableError.
        """
        with refusals_told(self._admin, self._to.name):
            return self._collected(self._ask_ends(partitions))

    def ends_and_id(self, partitions: list[int]) -> tuple[Offsets, Offsets, str]:
        """As `ends`, and which topic it is that has this name now: in the same round trip."""
        with refusals_told(self._admin, self._to.name):
            asked = self._ask_ends(partitions)
            described = self._admin.describe_topics(
                TopicCollection([self.topic]), request_timeout=ANSWER_SECONDS
            )
            # Of a topic that is gone the description alone says so.
            topic = answer(described[self.topic], self._to.name)
            low, high = self._collected(asked)
            return low, high, str(topic.topic_id)

    def _ask_ends(self, partitions: list[int]) -> list[dict[TopicPartition, Any]]:
        return [
            ask_offsets(self._admin, self.topic, dict.fromkeys(partitions, spec), stable=False)
            for spec in (EARLIEST, LATEST)
        ]

    def _collected(self, asked: list[dict[TopicPartition, Any]]) -> tuple[Offsets, Offsets]:
        low, high = (collect_offsets(futures, self._to.name) for futures in asked)
        return low, high

    def records(
        self, partition: int, first: int, end: int, seconds: float = 1.0
    ) -> Iterator[Message]:
        """Every record of a partition from `first` up to before `end`.

        Raises StalledError when nothing has come for so long since a transaction is open,
        BrokerUnreachableError, TopicGoneError.
        """
        if first >= end:
            return
        self._consumer.assign([TopicPartition(self.topic, partition, first)])
        reached, began = first, time.monotonic()
        while reached < end:
            message = self._consumer.poll(POLL_SECONDS)
            if message is not None:
                reached, began = max(reached, self._place_of(message)), time.monotonic()
                if message.error() is None and (message.offset() or 0) < end:
                    yield message
            elif (waited := time.monotonic() - began) > seconds:
                self._check_stall(partition, end, is_late=waited > ANSWER_SECONDS)

    def _check_stall(self, partition: int, end: int, *, is_late: bool) -> None:
        """Tell a transaction that is open from a broker that is slow.

        Where it begins before the place that is read from, the library tells of no end at all.
        """
        with refusals_told(self._admin, self._to.name):
            asked = ask_offsets(self._admin, self.topic, {partition: LATEST})
            stable = collect_offsets(asked, self._to.name)[partition]
        if stable < end and self._is_committed_only:
            raise StalledError(self.topic, partition, stable)
        if is_late:
            raise BrokerUnreachableError(self._to.name, f"{self.topic} cannot be read to its end")

    def _place_of(self, message: Message) -> int:
        """How far a message shows that the partition is read. Raises what an error means."""
        error, offset = message.error(), message.offset() or 0
        if error is None:
            return offset + 1
        if error.code() == END_REACHED:
            return offset
        if error.code() in UNKNOWN_TOPIC or error.code() in OUT_OF_RANGE:
            raise TopicGoneError
        is_of_the_group = error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED
        if is_of_the_group or kind_of(error.code()) is TroubleKind.UNAVAILABLE:
            # Nothing is asked of the group, and a broker that is away comes back or is late.
            return 0
        raise BrokerUnreachableError(self._to.name, sentence(error))

    def close(self) -> None:
        self._consumer.close()
