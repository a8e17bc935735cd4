"""Idle queues: nothing is attached, and a message starts a run all the same."""

import time
import uuid
from datetime import timedelta

import pytest
from celery import current_app
from confluent_kafka import Producer

from crontasks.models import CronInstance
from crontasks.running import idle
from crontasks.task_names import RUN_RELAY
from integration.kafka import arrivals as watching
from integration.kafka.arrivals import Arrivals, arrivals_of
from integration.models import Provider, Queue, QueuePartition
from integration.store.sessions import database_now, django_connection
from tests.functional.test_dispatcher_processes import applied, flush_broker, owned
from tests.support.builders import a_provider, a_queue
from tests.support.celery_world import celery_world, eventually
from tests.support.kafka_world import Kafka

pytestmark = [pytest.mark.servers, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def broker(servers) -> Kafka:
    return Kafka(servers.kafka_bootstrap)


@pytest.fixture
def arrivals(broker):
    client = arrivals_of(a_provider(broker.bootstrap))
    yield client
    client.close()


def a_transaction(broker: Kafka) -> Producer:
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "transactional.id": f"idle-{uuid.uuid4().hex}",
            "log_level": 0,
        }
    )
    producer.init_transactions(20)
    producer.begin_transaction()
    return producer


def came(arrivals: Arrivals) -> set[tuple[str, int]]:
    found: set[tuple[str, int]] = set()
    eventually(lambda: found.update(arrivals.wait(0.1)) or found, seconds=20.0)
    return found


def test_the_first_committed_record_of_each_place_is_told_once(arrivals, broker):
    one, other = broker.topic(2), broker.topic()
    broker.send(one, [{"n": 1}], partition=0)
    arrivals.watch({(one, 0): 1, (one, 1): 0, (other, 0): 0})
    assert arrivals.wait(1.0) == set()
    broker.send(one, [{"n": 2}, {"n": 3}], partition=1)
    assert came(arrivals) == {(one, 1)}
    broker.send(one, [{"n": 4}], partition=1)
    broker.send(other, [{"n": 5}])
    assert came(arrivals) == {(other, 0)}
    # What is watched anew at an offset that has been passed is told at once.
    arrivals.watch({(one, 1): 2, (other, 0): 1})
    assert came(arrivals) == {(one, 1)}
    assert arrivals.is_sure()


def test_open_and_aborted_transactions_and_markers_start_nothing(arrivals, broker):
    topic = broker.topic()
    arrivals.watch({(topic, 0): 0})
    producer = a_transaction(broker)
    producer.produce(topic, b"1")
    assert producer.flush(20) == 0
    assert arrivals.wait(0.7) == set()
    producer.abort_transaction(20)
    assert arrivals.wait(0.7) == set()
    broker.send(topic, [2])
    assert came(arrivals) == {(topic, 0)}


def test_what_ends_where_it_is_watched_is_told_unless_a_transaction_is_open(arrivals, broker):
    one, other = broker.topic(), broker.topic()
    broker.send(one, [{"n": 1}])
    arrivals.watch({(one, 0): 1, (other, 0): 0})
    both = {(one, 0), (other, 0)}
    eventually(lambda: not arrivals.wait(0.1) and arrivals.at_end() == both, seconds=20.0)
    producer = a_transaction(broker)
    producer.produce(other, b"1")
    assert producer.flush(20) == 0
    eventually(lambda: not arrivals.wait(0.1) and arrivals.at_end() == {(one, 0)}, seconds=20.0)
    producer.abort_transaction(20)


@pytest.mark.parametrize(("rest", "watched_seconds"), [(60.0, (0.0, 0.5)), (0.5, (0.2, 1.2, 2.0))])
def test_a_place_is_told_however_long_it_was_watched(broker, monkeypatch, rest, watched_seconds):
    """As a new one, while it is handed on, and once only the requests that rest for long name it.

    A place that no request under way names would be told when that one comes back: after a minute.
    """
    monkeypatch.setattr(watching, "SETTLED_REST_MS", int(rest * 1_000))
    monkeypatch.setattr(watching, "SURE_SECONDS", 2 * rest)
    monkeypatch.setattr(watching, "MOVE_SECONDS", 0.2)
    old, topic = broker.topic(), broker.topic()
    arrivals = arrivals_of(a_provider(broker.bootstrap))
    # One stays with the client whose requests rest for long, and has one under way.
    for _ in range(12):
        arrivals.watch({(old, 0): 0})
        assert arrivals.wait(0.1) == set()
    for offset, seconds in enumerate(watched_seconds):
        places = {(old, 0): 0, (topic, 0): offset}
        arrivals.watch(places)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            assert arrivals.wait(0.1) == set()
            arrivals.watch(places)
        broker.send(topic, [{"n": offset}])
        assert came(arrivals) == {(topic, 0)}
    arrivals.close()


def test_a_place_that_cannot_be_read_is_something_to_look_at(arrivals, broker):
    topic = broker.topic()
    arrivals.watch({(topic, 0): 7})
    assert came(arrivals) == {(topic, 0)}


def test_a_message_starts_a_run_of_an_idle_queue_without_a_tick(
    broker, child_environment, tmp_path
):
    CronInstance.objects.all().delete()
    flush_broker(child_environment)
    queue = a_queue(broker, partitions=2, stay_seconds=0.2)
    with celery_world(child_environment, tmp_path) as world:
        worker = world.worker("one", concurrency=1)
        relay = world.worker("relay", concurrency=1, queues="relay")
        eventually(lambda: QueuePartition.objects.filter(epoch__gt=0).count() == 2, worker)
        eventually(lambda: not owned(queue), worker)
        current_app.send_task(RUN_RELAY)
        eventually(is_watched(queue), worker, relay)
        epochs = sorted(QueuePartition.objects.values_list("epoch", flat=True))

        at_rest = QueuePartition.objects.filter(idle_since__isnull=False)
        eventually(lambda: at_rest.count() == 2, worker, relay)
        broker.send(queue.topic, [{"n": 1}], partition=1)
        eventually(lambda: applied() == [1], worker, relay)
        eventually(lambda: not owned(queue), worker, relay)
        broker.send(queue.topic, [{"n": 2}], partition=0)
        eventually(lambda: applied() == [1, 2], worker, relay)
        # Only messages have started runs.
        after = sorted(QueuePartition.objects.values_list("epoch", flat=True))
        assert [late - early for early, late in zip(epochs, after, strict=True)] == [2, 2]


def is_watched(queue: Queue):
    def look() -> bool:
        with django_connection().cursor() as cursor:
            return idle.is_watched(cursor, queue.pk)

    return look


def test_only_queues_with_short_intervals_of_watched_providers_are_left_without_ticks(broker):
    queue = a_queue(broker)
    Provider.objects.update(idle_watched_at=database_now())
    assert is_watched(queue)()
    CronInstance.objects.filter(queue=queue).update(interval_seconds=3_600)
    assert not is_watched(queue)()
    CronInstance.objects.filter(queue=queue).update(interval_seconds=10)
    Provider.objects.update(idle_watched_at=database_now() - timedelta(seconds=30))
    assert not is_watched(queue)()
