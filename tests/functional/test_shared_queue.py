"""Several runs of one queue at the same time, on real workers: each message is applied once."""

import os
import signal

import pytest

from integration.models import PartitionLease, Queue
from tests.functional.test_dispatcher_processes import flush_broker
from tests.support.builders import a_queue
from tests.support.celery_world import celery_world, eventually
from tests.support.kafka_world import Kafka
from tests.support.world.models import Effect

pytestmark = [pytest.mark.servers, pytest.mark.django_db(transaction=True)]
PARTITIONS = 4
EACH = 150


@pytest.fixture
def world(child_environment, tmp_path):
    flush_broker(child_environment)
    with celery_world(child_environment, tmp_path) as started:
        yield started


@pytest.fixture
def broker(servers) -> Kafka:
    return Kafka(servers.kafka_bootstrap)


def owners(queue: Queue) -> set[str]:
    leases = PartitionLease.objects.filter(partition__queue=queue, released_at__isnull=True)
    return set(leases.values_list("owner", flat=True))


def fill(broker: Kafka, queue: Queue, first: int = 0) -> int:
    """Messages that take 10 ms each, as many in each partition; returns the next number."""
    for partition in range(PARTITIONS):
        numbers = range(first + partition * EACH, first + (partition + 1) * EACH)
        bodies = [{"n": n, "do": "sleep", "seconds": 0.01} for n in numbers]
        broker.send(queue.topic, bodies, partition=partition)
    return first + PARTITIONS * EACH


def test_runs_come_to_a_busy_queue_and_whoever_dies_is_replaced(world, broker):
    queue = a_queue(broker, partitions=PARTITIONS, stay_seconds=600.0, batch_size=10)
    count = fill(broker, queue)
    worker = world.worker("one", concurrency=3)
    eventually(lambda: len(owners(queue)) == 3, worker)

    killed = int(min(owners(queue)).partition(":")[2].partition("/")[0])
    os.kill(killed, signal.SIGKILL)
    count = fill(broker, queue, count)
    eventually(lambda: Effect.objects.count() >= count, worker)
    assert sorted(Effect.objects.values_list("n", flat=True)) == list(range(count))
    # What is idle asks for nobody; those who are there keep their shares.
    assert len(owners(queue)) >= 2

    Queue.objects.filter(pk=queue.pk).update(workers=1)
    Queue.objects.get(pk=queue.pk).save()
    eventually(lambda: len(owners(queue)) == 1, worker)


def test_another_queue_gets_a_slot_beside_a_busy_one(world, broker):
    busy = a_queue(broker, partitions=PARTITIONS, stay_seconds=600.0, batch_size=10)
    count = fill(broker, busy)
    worker = world.worker("one", concurrency=2)
    eventually(lambda: len(owners(busy)) == 2, worker)
    other = a_queue(broker, stay_seconds=0.3)
    broker.send(other.topic, [{"n": -1}])
    eventually(lambda: Effect.objects.filter(n=-1).exists(), worker)
    assert Effect.objects.count() < count + 1
    eventually(lambda: Effect.objects.count() >= count + 1, worker)
    assert Effect.objects.count() == count + 1
