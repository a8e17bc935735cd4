"""Repeated messages among others, in one batch or at the same time in another partition."""

import json
import threading
from collections import Counter
from typing import Any

import pytest
from django.db import connections
from django.utils import timezone

from integration.actions.blocks import move_position
from integration.delivery.steps import Step
from integration.models import (
    MessageError,
    MessageTrack,
    ObjectStructure,
    Queue,
    QueuePartition,
    SeenMessage,
    StoredObject,
)
from integration.runs.queues import run_queue
from integration.values import content_hash
from tests.support.builders import a_brief_queue as a_queue
from tests.support.bulk import storing
from tests.support.flows import drain
from tests.support.kafka_world import Kafka
from tests.support.world.models import Effect

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


def applied_elsewhere(queue: Queue, message_id: str, body: dict[str, Any]) -> None:
    """Commit what a run that reads another partition writes with the effect of this message."""

    def commit() -> None:
        SeenMessage.objects.create(
            queue=queue,
            message_id=message_id,
            content_hash=content_hash(json.dumps(body).encode()),
            partition=7,
            offset=0,
            seen_at=timezone.now(),
        )
        connections.close_all()

    other = threading.Thread(target=commit)
    other.start()
    other.join(20)


def test_a_repetition_that_is_applied_in_another_partition_meanwhile_has_no_effect(
    broker: Kafka,
) -> None:
    queue, body = a_queue(broker, dedupe=True), {"n": 1}
    broker.send(queue.topic, [{"n": 0}], headers=[("MEAMessageID", b"other")])
    broker.send(queue.topic, [body], headers=[("MEAMessageID", b"twice")])
    handled = []

    class Meanwhile:
        def step(self, step: Step) -> None:
            if step is Step.HANDLED:
                handled.append(step)
                if len(handled) == 1:
                    applied_elsewhere(queue, "twice", body)

    run_queue(queue.pk, observer=Meanwhile())
    assert (len(handled), list(Effect.objects.values_list("n", flat=True))) == (2, [0])
    assert ended() == {"APPLIED": 1, "DUPLICATE": 1}
    assert not MessageError.objects.exists()


def test_a_failure_whose_repetition_was_applied_in_another_partition_is_not_applied_again(
    broker: Kafka,
) -> None:
    queue, body = a_queue(broker, dedupe=True), {"n": 1, "do": "transient"}
    broker.send(queue.topic, [body], headers=[("MEAMessageID", b"twice")])
    run_queue(queue.pk)
    assert MessageError.objects.get().state in {"RETRY", "HOLD"}
    applied_elsewhere(queue, "twice", body)
    MessageError.objects.update(state="READY", not_before=None)
    run_queue(queue.pk)
    row = MessageError.objects.get()
    assert (row.state, row.ended, Effect.objects.count()) == ("RESOLVED", "DUPLICATE", 0)


def test_a_failure_that_is_handed_out_again_once_it_was_applied_is_applied_again(
    broker: Kafka,
) -> None:
    """A replay releases it as it stands; the id that is remembered is its own."""
    queue = a_queue(broker, dedupe=True, max_retries=0)
    body = {"n": 1, "do": "bug"}
    broker.send(queue.topic, [body], headers=[("MEAMessageID", b"own")])
    drain(queue)
    corrected = json.dumps({"n": 1}).encode()
    MessageError.objects.update(state="READY", not_before=None, edited_payload=corrected)
    drain(queue)
    assert list(Effect.objects.values_list("n", flat=True)) == [1]
    MessageError.objects.update(state="READY", not_before=None, closed_at=None, ended="")
    drain(queue)
    row = MessageError.objects.get()
    assert (row.state, row.ended) == ("RESOLVED", "APPLIED")
    assert list(Effect.objects.values_list("n", flat=True)) == [1, 1]

    SeenMessage.objects.update(topic_uuid="one that was deleted")
    MessageError.objects.update(state="READY", not_before=None, closed_at=None, ended="")
    drain(queue)
    assert MessageError.objects.get().ended == "DUPLICATE", "applied elsewhere"
    assert Effect.objects.count() == 2


def test_a_failure_that_the_position_went_back_over_stays_older_than_what_is_dropped_there(
    broker: Kafka,
) -> None:
    structure = ObjectStructure.objects.create(name="ASSET", key_paths=["$.a"])
    queue = storing(a_queue(broker, dedupe=True, max_retries=0), structure)
    broker.send(queue.topic, [{"b": 1}, {"a": 1, "name": "new"}])
    drain(queue)
    move_position(QueuePartition.objects.get(), 0)
    drain(queue)
    corrected = json.dumps({"a": 1, "name": "old"}).encode()
    MessageError.objects.update(state="READY", not_before=None, edited_payload=corrected)
    drain(queue)
    assert MessageError.objects.get().ended == "SUPERSEDED"
    assert StoredObject.objects.get().document["name"] == "new"


def test_a_message_that_is_sent_again_with_another_count_is_a_repetition(broker: Kafka) -> None:
    queue = a_queue(broker, dedupe=True, retry_wrapper=True, max_retries=0)

    def send(name: str, count: int, message: dict[str, Any]) -> None:
        wrapped = {"retryCount": count, "message": message}
        broker.send(queue.topic, [wrapped], headers=[("MEAMessageID", name.encode())])

    for count in range(2):
        send("in-one-batch", count, {"n": 1})
        send("failed", count, {"n": 2, "do": "bug"})
    drain(queue)
    send("in-one-batch", 2, {"n": 1})
    send("failed", 2, {"n": 2, "do": "bug"})
    send("in-one-batch", 3, {"n": 3})
    drain(queue)
    codes = dict(MessageError.objects.values_list("offset", "code"))
    assert codes == {1: "KEY_ERROR", 6: "ID_REUSED"}
    assert ended() == {"APPLIED": 1, "HOLD": 2, "DUPLICATE": 4}


def test_what_was_remembered_with_its_wrapper_is_a_repetition_as_a_whole(broker: Kafka) -> None:
    queue = a_queue(broker, dedupe=True, retry_wrapper=True)
    wrapped = {"retryCount": 0, "message": {"n": 1}}
    applied_elsewhere(queue, "twice", wrapped)
    broker.send(queue.topic, [wrapped], headers=[("MEAMessageID", b"twice")])
    drain(queue)
    assert ended() == {"DUPLICATE": 1}
