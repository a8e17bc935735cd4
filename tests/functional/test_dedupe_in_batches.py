"""Repeated messages among others, where one handler takes many at once: none of the others goes."""

from collections import Counter
from typing import Any

import pytest

from integration.models import MessageTrack, ObjectStructure, Queue
from tests.support.builders import a_brief_queue as a_queue
from tests.support.bulk import storing
from tests.support.flows import drain
from tests.support.kafka_world import Kafka

pytestmark = [pytest.mark.servers, pytest.mark.django_db(transaction=True)]
COUNT = 60


@pytest.fixture
def broker(servers: Any) -> Kafka:
    return Kafka(servers.kafka_bootstrap)


@pytest.fixture
def structure(servers: Any) -> ObjectStructure:
    return ObjectStructure.objects.create(name="COPY", key_paths=["$.num"])


@pytest.fixture
def queue(broker: Kafka, structure: ObjectStructure) -> Queue:
    return storing(a_queue(broker, dedupe=True), structure)


def send(broker: Kafka, queue: Queue, *numbers: int) -> None:
    for number in numbers:
        headers = [("MEAMessageID", b"id-%d" % number)]
        broker.send(queue.topic, [{"num": number}], headers=headers)


def stored(structure: ObjectStructure) -> list[int]:
    return sorted(row["num"] for row in structure.documents.values_list("document", flat=True))


def ended() -> Counter[str]:
    return Counter(MessageTrack.objects.values_list("ended", flat=True))


def test_each_message_is_applied_once_however_its_repetition_lies(
    broker: Kafka, queue: Queue, structure: ObjectStructure
) -> None:
    """A partner that sends each ten again, and then the next ten: its answers were lost."""
    for first in range(0, COUNT, 10):
        numbers = range(first, first + 10)
        send(broker, queue, *numbers, *numbers)
    drain(queue)
    assert stored(structure) == list(range(COUNT))
    assert ended() == {"APPLIED": COUNT, "DUPLICATE": COUNT}


def test_new_messages_between_repetitions_of_an_earlier_run_are_applied(
    broker: Kafka, queue: Queue, structure: ObjectStructure
) -> None:
    send(broker, queue, *range(0, COUNT, 2))
    drain(queue)
    send(broker, queue, *range(COUNT))
    drain(queue)
    assert stored(structure) == list(range(COUNT))
    assert ended() == {"APPLIED": COUNT, "DUPLICATE": COUNT // 2}


def test_an_id_that_is_used_again_with_other_content_holds_only_itself(
    broker: Kafka, queue: Queue, structure: ObjectStructure
) -> None:
    send(broker, queue, *range(5))
    drain(queue)
    for number in range(5):
        headers = [("MEAMessageID", b"id-%d" % number)]
        broker.send(queue.topic, [{"num": -1 - number}], headers=headers)
        send(broker, queue, 10 + number)
    drain(queue)
    assert stored(structure) == [*range(5), *range(10, 15)]
    assert ended() == {"APPLIED": 10, "HOLD": 5}
