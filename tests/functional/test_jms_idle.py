"""Idle queues at a JMS broker: nothing is attached, and a message starts a run all the same."""

from collections.abc import Iterator

import pytest
from celery import current_app

from crontasks.models import CronInstance
from crontasks.running import idle
from crontasks.task_names import RUN_RELAY
from integration.amqp.arrivals import JmsArrivals
from integration.models import Provider, Queue, QueuePartition
from integration.runs.arrivals import arrivals_of
from integration.runs.queues import run_queue
from integration.store.sessions import django_connection
from tests.functional.test_dispatcher_processes import applied, flush_broker, owned
from tests.support.amqp import Broker
from tests.support.builders import a_provider
from tests.support.celery_world import celery_world, eventually
from tests.support.jms import a_jms_provider, a_jms_queue, left, put
from tests.support.kafka_world import Kafka

pytestmark = [pytest.mark.servers, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def arrivals(amqp_broker: Broker) -> Iterator[JmsArrivals]:
    client = arrivals_of(a_jms_provider(amqp_broker))
    yield client
    client.close()


def place(queue: Queue) -> tuple[str, int]:
    return str(queue.pk), 0


def came(arrivals: JmsArrivals) -> set[tuple[str, int]]:
    found: set[tuple[str, int]] = set()
    eventually(lambda: found.update(arrivals.wait(0.1)) or found)
    return found


def at_end(arrivals: JmsArrivals, *queues: Queue) -> None:
    ends = {place(queue) for queue in queues}
    eventually(lambda: not arrivals.wait(0.1) and arrivals.at_end() == ends)


def test_what_comes_is_told_by_queue_and_stays(servers, amqp_broker: Broker, arrivals):
    one = a_jms_queue(amqp_broker, selector="JMSPriority > 4")
    other = a_jms_queue(amqp_broker, topic=one.topic, selector="JMSPriority <= 4")
    places = {place(one): 0, place(other): 0}
    arrivals.watch(places)
    at_end(arrivals, one, other)
    put(amqp_broker, one, [{"n": 0}], priority=9)
    assert came(arrivals) == {place(one)}
    assert arrivals.at_end() == {place(other)}
    # Told once, until it is to be watched again.
    assert arrivals.wait(1.5) == set()
    arrivals.watch(places)
    assert came(arrivals) == {place(one)}
    assert left(amqp_broker, one) == ["m0"]
    assert arrivals.is_sure()
    # What is read is asked anew each time.
    Queue.objects.filter(pk=other.pk).update(selector="JMSPriority = 9")
    arrivals.watch({place(other): 0})
    assert came(arrivals) == {place(other)}


def test_a_large_message_is_told_without_being_taken_in(servers, amqp_broker: Broker, arrivals):
    queue = a_jms_queue(amqp_broker)
    put(amqp_broker, queue, ["x" * 3_000_000])
    arrivals.watch({place(queue): 0})
    assert came(arrivals) == {place(queue)}


def test_a_subscription_is_watched_once_a_run_has_begun_it(servers, amqp_broker: Broker, arrivals):
    queue = a_jms_queue(amqp_broker, subscription="sluice")
    arrivals.watch({place(queue): 0})
    assert arrivals.wait(1.5) == set()
    assert arrivals.at_end() == set()
    run_queue(queue.pk)
    arrivals.watch({place(queue): 0})
    at_end(arrivals, queue)
    put(amqp_broker, queue, [{"n": 0}], to_topic=True)
    assert came(arrivals) == {place(queue)}


def test_where_it_cannot_look_it_promises_nothing(servers, amqp_broker: Broker, arrivals):
    queue, bad = a_jms_queue(amqp_broker), a_jms_queue(amqp_broker, selector="= =")
    arrivals.watch({place(queue): 0, place(bad): 0})
    eventually(lambda: not arrivals.is_sure())
    put(amqp_broker, queue, [{"n": 0}])
    assert came(arrivals) == {place(queue)}
    arrivals.watch({place(queue): 1})
    eventually(arrivals.is_sure)
    amqp_broker.kill()
    eventually(lambda: not arrivals.is_sure())
    amqp_broker.server.start()
    arrivals.watch({place(queue): 2})
    eventually(arrivals.is_sure)
    assert came(arrivals) == {place(queue)}


def test_a_message_starts_a_run_of_an_idle_jms_queue_without_a_tick(
    servers, amqp_broker: Broker, child_environment, tmp_path
):
    CronInstance.objects.all().delete()
    flush_broker(child_environment)
    a_provider(Kafka(servers.kafka_bootstrap).bootstrap)
    queue = a_jms_queue(amqp_broker, "continuous", stay_seconds=0.2)
    with celery_world(child_environment, tmp_path) as world:
        worker = world.worker("one", concurrency=1)
        relay = world.worker("relay", concurrency=1, queues="relay")
        eventually(lambda: QueuePartition.objects.filter(epoch__gt=0).count() == 1, worker)
        eventually(lambda: not owned(queue), worker)
        current_app.send_task(RUN_RELAY)
        eventually(lambda: is_watched(queue), worker, relay)
        at_rest = QueuePartition.objects.filter(idle_since__isnull=False)
        eventually(lambda: at_rest.count() == 1, worker, relay)
        before = QueuePartition.objects.get().epoch
        for n in (1, 2):
            put(amqp_broker, queue, [{"n": n, "do": "ok"}], first=n)
            eventually(lambda n=n: len(applied()) == n, worker, relay)
            eventually(lambda: not owned(queue), worker, relay)
        # Only messages have started runs.
        assert QueuePartition.objects.get().epoch - before == 2
    assert Provider.objects.get(name="jms").idle_watched_at is not None
    assert left(amqp_broker, queue) == []


def is_watched(queue: Queue) -> bool:
    with django_connection().cursor() as cursor:
        return idle.is_watched(cursor, queue.pk)
