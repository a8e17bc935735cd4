"""Messages that wait for an object on real servers: its arrival makes them due, wherever it is."""

import threading
import time

import pytest
from django.db import connections, transaction

from integration.delivery.steps import Step
from integration.handlers import arrived
from integration.models import ArrivedObject, MessageError, ObjectStructure, OutboxRow, Queue
from integration.runs.queues import run_queue
from integration.store import dependencies
from integration.store.objects import store_documents
from integration.store.sessions import fetch_all
from integration.testing import a_message
from tests.support.builders import a_brief_queue
from tests.support.kafka_world import Kafka
from tests.support.world.models import Effect

pytestmark = [pytest.mark.servers, pytest.mark.django_db(transaction=True)]

IS_DUE = "SELECT not_before <= clock_timestamp() FROM integration_messageerror WHERE id = %s"


@pytest.fixture
def broker(servers) -> Kafka:
    return Kafka(servers.kafka_bootstrap)


@pytest.fixture
def queue(broker) -> Queue:
    return a_brief_queue(broker, max_retries=5, retry_delay_seconds=600)


def send(broker: Kafka, queue: Queue, *bodies: dict) -> None:
    broker.send(queue.topic, bodies)


def waiting(queue: Queue) -> MessageError:
    return MessageError.objects.get(queue=queue, state="RETRY")


def is_due(row: MessageError) -> bool:
    return bool(fetch_all(IS_DUE, [row.pk])[0][0])


def test_a_message_waits_for_its_object_and_is_tried_as_soon_as_it_arrives(broker, queue):
    send(broker, queue, {"n": 1, "do": "needs", "object": "A1"})
    run_queue(queue.pk)
    row = waiting(queue)
    assert (row.waits_kind, row.waits_key, is_due(row)) == ("asset", "A1", False)

    send(broker, queue, {"n": 2, "do": "brings", "object": "A1"})
    run_queue(queue.pk)
    run_queue(queue.pk)
    assert sorted(Effect.objects.values_list("n", flat=True)) == [1, 2]
    assert not MessageError.objects.filter(queue=queue).exclude(state="RESOLVED").exists()
    assert not OutboxRow.objects.filter(kind="TICKET", state="PENDING").exists()


def test_an_object_that_came_before_counts_once(broker, queue):
    arrived("asset", "A1")
    send(broker, queue, {"n": 1, "do": "missing"})
    # The second try is in this run or in the next: without the object it would wait ten minutes.
    run_queue(queue.pk)
    run_queue(queue.pk)
    row = waiting(queue)
    assert (row.attempts, is_due(row)) == (2, False)


def test_another_object_wakes_nobody(broker, queue):
    send(broker, queue, {"n": 1, "do": "missing"})
    run_queue(queue.pk)
    arrived("asset", "A2")
    arrived("location", "A1")
    assert not is_due(waiting(queue))


def test_what_was_rolled_back_has_not_arrived(broker, queue):
    send(
        broker, queue, {"n": 1, "do": "missing"}, {"n": 2, "do": "brings_and_fails", "object": "A1"}
    )
    run_queue(queue.pk)
    assert not ArrivedObject.objects.exists()
    assert not is_due(MessageError.objects.get(queue=queue, offset=0))


def test_an_arrival_that_is_committed_once_the_message_waits_is_not_missed(broker, queue):
    """It was written before the message looked; its commit finds the message waiting."""
    written, go_on = threading.Event(), threading.Event()

    def bring() -> None:
        with transaction.atomic():
            arrived("asset", "A1")
            written.set()
            go_on.wait(20)
        connections.close_all()

    bringing = threading.Thread(target=bring)
    bringing.start()
    assert written.wait(20)
    send(broker, queue, {"n": 1, "do": "missing"})
    run_queue(queue.pk)
    row = waiting(queue)
    assert not is_due(row)
    go_on.set()
    bringing.join(20)
    assert is_due(row)


def test_an_arrival_during_a_later_try_counts(broker, queue):
    """The row is locked while it is tried: it looks again itself."""
    send(broker, queue, {"n": 1, "do": "missing"})
    run_queue(queue.pk)
    row = waiting(queue)
    MessageError.objects.filter(pk=row.pk).update(not_before=row.first_failed_at)

    class Arriving:
        def step(self, step: Step) -> None:
            if step is Step.HANDLED:
                thread = threading.Thread(target=bring)
                thread.start()
                thread.join(20)

    def bring() -> None:
        arrived("asset", "A1")
        connections.close_all()

    run_queue(queue.pk, observer=Arriving())
    row.refresh_from_db()
    assert (row.attempts >= 2, is_due(row) or row.attempts == 3) == (True, True)


def test_the_head_of_a_sequential_queue_goes_on_at_once(broker):
    queue = a_brief_queue(broker, "sequential", max_retries=5, retry_delay_seconds=600)
    send(broker, queue, {"n": 1, "do": "needs", "object": "A1"}, {"n": 2})
    run_queue(queue.pk)
    assert not Effect.objects.exists()
    arrived("asset", "A1")
    run_queue(queue.pk)
    assert list(Effect.objects.order_by("pk").values_list("n", flat=True)) == [1, 2]


def test_what_a_handler_has_rolled_back_itself_has_not_arrived(broker, queue):
    send(broker, queue, {"n": 1, "do": "brings_in_vain", "object": "A1"})
    run_queue(queue.pk)
    assert Effect.objects.count() == 1
    assert not ArrivedObject.objects.exists()


def test_a_run_finds_what_nobody_said(broker, queue):
    send(broker, queue, {"n": 1, "do": "missing"})
    run_queue(queue.pk)
    row = waiting(queue)
    ArrivedObject.objects.create(object=row.waits_for, arrived_at=row.first_failed_at)
    run_queue(queue.pk)
    row.refresh_from_db()
    assert row.attempts == 2


def test_who_takes_over_from_a_run_that_died_wakes_what_that_had_not(broker, queue, monkeypatch):
    """No clock would: the retry is minutes away, and no run of the waiting queue begins."""
    send(broker, queue, {"n": 1, "do": "needs", "object": "A1"})
    run_queue(queue.pk)
    other = a_brief_queue(broker)
    send(broker, other, {"n": 2, "do": "brings", "object": "A1"})
    with monkeypatch.context() as patched:
        patched.setattr(dependencies, "wake", die)
        with pytest.raises(KeyboardInterrupt):
            run_queue(other.pk)
    assert (Effect.objects.count(), is_due(waiting(queue))) == (1, False)
    run_queue(other.pk)
    assert is_due(waiting(queue))


def die(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_key_of_any_length_is_waited_for(broker, queue):
    key = "x" * 100_000
    send(broker, queue, {"n": 1, "do": "needs", "object": key})
    run_queue(queue.pk)
    row = waiting(queue)
    assert len(row.waits_key) == 500
    arrived("asset", key)
    assert is_due(row)


def test_a_stored_object_with_a_long_key_wakes_what_waits_for_it(broker, queue):
    key = "x" * 600
    structure = ObjectStructure.objects.create(name="asset", key_paths=["$.num"])
    send(broker, queue, {"n": 1, "do": "needs", "object": key})
    run_queue(queue.pk)
    row = waiting(queue)
    for other in (key[:500], row.waits_key[:499], key[:-1]):
        store(structure, other)
        dependencies.wake_missed(queue.pk)
        assert not is_due(row)
    store(structure, key)
    assert is_due(row)


def test_a_stored_object_with_a_long_key_is_found_by_a_run_that_nobody_told(broker, queue):
    key = "x" * 501
    structure = ObjectStructure.objects.create(name="asset", key_paths=["$.num"])
    send(broker, queue, {"n": 1, "do": "needs", "object": key})
    run_queue(queue.pk)
    row = waiting(queue)

    def come() -> None:
        store(structure, key)
        connections.close_all()

    with transaction.atomic():
        MessageError.objects.select_for_update().get(pk=row.pk)
        coming = threading.Thread(target=come)
        coming.start()
        coming.join(20)
    assert not is_due(row), "who stored it passed over a row that was in use"
    dependencies.wake_missed(queue.pk)
    assert is_due(row)


def store(structure: ObjectStructure, key: str) -> None:
    with transaction.atomic():
        store_documents(structure, [a_message({"num": key})])


@pytest.mark.parametrize(
    "bound",
    [{"max_retries": 2}, {"unlimited_retries": True, "retry_total_seconds": 0.2}],
    ids=["retries", "time"],
)
def test_two_that_wait_for_each_other_end_on_hold_and_stop_nobody(broker, bound):
    queue = a_brief_queue(broker, retry_delay_seconds=0.01, **bound)
    send(
        broker,
        queue,
        {"n": 1, "do": "exchanges", "object": "A1", "needed": "B1"},
        {"n": 2, "do": "exchanges", "object": "B1", "needed": "A1"},
        {"n": 3},
    )
    rows = MessageError.objects.filter(queue=queue)
    until = time.monotonic() + 30
    while rows.exclude(state="HOLD").exists() or not rows.exists():
        assert time.monotonic() < until, list(rows.values_list("state", "attempts"))
        run_queue(queue.pk)
    told = rows.order_by("offset").values_list("code", "waits_key")
    assert list(told) == [("MISSING_DEPENDENCY", "B1"), ("MISSING_DEPENDENCY", "A1")]
    assert list(Effect.objects.values_list("n", flat=True)) == [3]
    assert not ArrivedObject.objects.exists()


def test_a_run_that_looks_for_what_it_missed_keeps_no_arrival_from_those_that_wait(broker, queue):
    send(broker, queue, {"n": 1, "do": "missing"})
    run_queue(queue.pk)
    row = waiting(queue)

    def arrive() -> None:
        with transaction.atomic():
            arrived("asset", "A1")
        connections.close_all()

    with transaction.atomic():
        dependencies.wake_missed(queue.pk)
        other = threading.Thread(target=arrive)
        other.start()
        other.join(20)
        assert not other.is_alive()
    assert is_due(row)
