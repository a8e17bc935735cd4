"""What the client library says about offsets, and when that is no answer."""

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import OFFSET_INVALID, TopicPartition

from integration.kafka.errors import BrokerUnreachableError
from integration.kafka.facts import FactsReader, collect_offsets
from integration.kafka.troubles import MOVING, has_code

pytestmark = pytest.mark.fast


def answered(result: object) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(result)
    return future


def offsets(*values: int) -> dict[TopicPartition, Any]:
    return {
        TopicPartition("t", number): answered(SimpleNamespace(offset=value))
        for number, value in enumerate(values)
    }


class Coming:
    """A broker that comes back: at first the library tells no offset, and no error either."""

    def __init__(self) -> None:
        self.asked = 0

    def noticed(self) -> list[object]:
        return []

    def describe_topics(self, *_: object, **__: object) -> dict[str, Any]:
        topic = SimpleNamespace(topic_id="uuid", partitions=[SimpleNamespace(id=0)])
        return {"t": answered(topic)}

    def list_offsets(self, *_: object, **__: object) -> dict[TopicPartition, Any]:
        self.asked += 1
        return offsets(OFFSET_INVALID if self.asked <= 2 else 7)


def test_offsets_are_collected_by_partition():
    # Nothing was written since a time: this is an answer.
    assert collect_offsets(offsets(0, 12, -1), "main") == {0: 0, 1: 12, 2: -1}


def test_an_offset_that_the_library_does_not_know_is_no_answer():
    with pytest.raises(BrokerUnreachableError) as told:
        collect_offsets(offsets(5, OFFSET_INVALID), "main")
    assert has_code(told.value, MOVING)


def test_a_broker_that_comes_back_is_asked_again_for_where_the_topic_ends():
    broker: Any = Coming()
    facts = FactsReader(broker, "main", "t").read()
    assert facts is not None
    assert facts.high == {0: 7}
