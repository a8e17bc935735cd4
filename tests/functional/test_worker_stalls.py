"""Workers whose broker goes away or hangs, and workers whose consumer stalls: none is called well.

What is tested: real workers, a Valkey that is killed, one that is stopped, and consumers that
stand still for good. Whoever asks meanwhile hears that no worker takes tasks; afterwards the
worker takes them again, or its process has ended and said why.
"""

import socket
import time
from contextlib import contextmanager

import pytest
from django.db import connection

from crontasks import alive
from crontasks.dispatch.stalled import ENDS_AFTER_SECONDS, EXIT_CODE, StallWatch
from crontasks.health.consumer import SILENT_SECONDS, Signs
from crontasks.health.live_processes import live_processes
from crontasks.models import CronInstance, Heartbeat
from integration.models import MessageError, PartitionLease, Queue
from tests.support.builders import a_queue
from tests.support.celery_world import celery_world, eventually
from tests.support.kafka_world import Kafka
from tests.support.world.models import Effect

pytestmark = [pytest.mark.servers, pytest.mark.django_db(transaction=True)]

HERE = socket.gethostname()
STALLING = ["tests.support.stalling_worker"]


@pytest.fixture
def world(child_environment, tmp_path):
    CronInstance.objects.all().delete()
    with celery_world(child_environment, tmp_path) as started:
        yield started


@pytest.fixture
def broker(servers) -> Kafka:
    return Kafka(servers.kafka_bootstrap)


def applied() -> list[int]:
    return sorted(Effect.objects.values_list("n", flat=True))


def owned(queue: Queue) -> bool:
    return PartitionLease.objects.filter(partition__queue=queue, released_at__isnull=True).exists()


def called_well() -> tuple[bool, bool]:
    """What those say who are asked whether a worker takes tasks: `live_processes` (with it the
    pages, `check_flow`, `doctor` and `/readyz`), and the health check of a container."""
    return bool(live_processes().workers), any(
        alive.nodes(connection.settings_dict, "worker", HERE).values()
    )


@contextmanager
def killed(server):
    server.kill()
    try:
        yield
    finally:
        server.start()


@contextmanager
def paused(server):
    server.pause()
    try:
        yield
    finally:
        server.resume()


@pytest.mark.parametrize("away", [killed, paused], ids=["killed", "paused"])
def test_without_the_broker_no_worker_is_called_well_and_afterwards_it_goes_on(
    world, broker, servers, away
):
    first = a_queue(broker, stay_seconds=0.1)
    broker.send(first.topic, [{"n": 1}])
    worker = world.worker("one", concurrency=1, host=HERE, program=[*STALLING, "never"])
    eventually(lambda: applied() == [1], worker)
    eventually(lambda: called_well() == (True, True), worker)
    with away(servers.valkey):
        eventually(lambda: called_well() == (False, False), worker, seconds=40)
        assert Heartbeat.objects.get(pid=worker.pid).slots == 0
        # Nobody can be asked to read it before the broker is back.
        broker.send(a_queue(broker, stay_seconds=0.1).topic, [{"n": 2}])
        time.sleep(1)
        assert worker.process.poll() is None
    eventually(lambda: applied() == [1, 2], worker, seconds=90)
    eventually(lambda: called_well() == (True, True), worker)


@pytest.mark.parametrize("how", ["deaf", "stuck"])
def test_a_consumer_that_stalls_for_good_ends_its_worker_and_its_run_is_taken_over(
    world, broker, how
):
    queue = a_queue(broker, stay_seconds=600.0)
    stalling = world.worker("one", concurrency=2, host=HERE, program=[*STALLING, how])
    eventually(lambda: owned(queue), stalling)
    broker.send(queue.topic, [{"n": 1}])
    eventually(lambda: called_well() == (False, False), stalling)
    assert stalling.process.wait(60) == EXIT_CODE
    assert "CONSUMER_STALLED" in stalling.text()

    broker.send(queue.topic, [{"n": 2}])
    again = world.worker("two", concurrency=1, host=HERE)
    eventually(lambda: applied() == [1, 2], again)
    assert not MessageError.objects.exists()
    eventually(lambda: called_well() == (True, True), again)


def test_only_a_broker_that_answers_for_a_while_ends_a_worker(servers):
    """A new process could do no more while it is away, and would only be started again."""
    now = [0.0]
    watch = StallWatch(signs := Signs(clock=lambda: now[0]), end=lambda: None)

    def gives_up(seconds: float) -> bool:
        now[0] += seconds
        return watch.look(now[0])

    assert not gives_up(SILENT_SECONDS)
    assert not gives_up(ENDS_AFTER_SECONDS - 1)
    with killed(servers.valkey):
        assert not gives_up(1)
        assert not gives_up(10 * ENDS_AFTER_SECONDS)
    assert not gives_up(10 * ENDS_AFTER_SECONDS)
    assert gives_up(ENDS_AFTER_SECONDS)
    signs.give()
    assert not gives_up(1)


def test_work_in_the_loops_own_thread_is_no_silence():
    now = [0.0]
    signs = Signs(clock=lambda: now[0])
    signs.begin_work()
    now[0] += 10 * SILENT_SECONDS
    assert signs.are_fresh()
    signs.end_work()
    assert signs.are_fresh()
    now[0] += SILENT_SECONDS
    assert not signs.are_fresh()
