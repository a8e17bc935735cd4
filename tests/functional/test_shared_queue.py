"""Several runs of one queue at the same time, on real workers: each message is applied once."""

import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta

import pytest
from django.db import connections

from integration.delivery.ports import LostError
from integration.delivery.rescuing import RescueStep
from integration.models import Gap, MessageError, MessageTrack, PartitionLease, Queue
from integration.store import locks, sharing
from integration.store.partition_manager import DatabasePartitionManager
from integration.store.sessions import database_now
from tests.functional.test_dispatcher_processes import flush_broker
from tests.support import warm
from tests.support.builders import a_queue
from tests.support.celery_world import celery_world, eventually
from tests.support.flows import position
from tests.support.kafka_world import Kafka
from tests.support.warm import WarmChild
from tests.support.world.models import Effect

pytestmark = [pytest.mark.servers, pytest.mark.django_db(transaction=True)]
PARTITIONS = 4
EACH = 150
RESCUES = 5


@pytest.fixture
def world(child_environment, tmp_path):
    flush_broker(child_environment)
    with celery_world(child_environment, tmp_path) as started:
        yield started


@pytest.fixture
def broker(servers) -> Kafka:
    return Kafka(servers.kafka_bootstrap)


def owners(queue: Queue, **of: int) -> set[str]:
    """Who holds its partitions, or one of them."""
    partitions = queue.partitions.filter(**of)
    leases = PartitionLease.objects.filter(partition__in=partitions, released_at__isnull=True)
    return set(leases.values_list("owner", flat=True))


def kill(owner: str) -> None:
    """End the process that an owner names, as a power cut would."""
    os.kill(int(owner.partition(":")[2].partition("/")[0]), signal.SIGKILL)


def fill(broker: Kafka, queue: Queue, first: int = 0, partitions: int = PARTITIONS) -> int:
    """Messages that take 10 ms each, as many in each partition; returns the next number."""
    for partition in range(partitions):
        numbers = range(first + partition * EACH, first + (partition + 1) * EACH)
        bodies = [{"n": n, "do": "sleep", "seconds": 0.01} for n in numbers]
        broker.send(queue.topic, bodies, partition=partition)
    return first + partitions * EACH


def test_runs_come_to_a_busy_queue_and_whoever_dies_is_replaced(world, broker):
    queue = a_queue(broker, partitions=PARTITIONS, stay_seconds=600.0, batch_size=10)
    count = fill(broker, queue)
    worker = world.worker("one", concurrency=3)
    eventually(lambda: len(owners(queue)) == 3, worker)

    kill(min(owners(queue)))
    count = fill(broker, queue, count)
    eventually(lambda: Effect.objects.count() >= count, worker)
    assert sorted(Effect.objects.values_list("n", flat=True)) == list(range(count))
    # What is idle asks for nobody; those who are there keep their shares.
    assert len(owners(queue)) >= 2

    Queue.objects.filter(pk=queue.pk).update(workers=1)
    Queue.objects.get(pk=queue.pk).save()
    eventually(lambda: len(owners(queue)) == 1, worker)


def test_who_stands_still_before_it_has_a_lease_keeps_nothing(broker):
    """It counts as one of the queue's runs, and only a lease would tell that its time is over."""
    queue = a_queue(broker, partitions=PARTITIONS)
    is_there, goes_on = threading.Event(), threading.Event()

    def stand_still(session, _partitions) -> tuple[int, ...]:
        assert silence_of(session) == f"{locks.UNLEASED_SECONDS // 60}min"
        session.execute("SET idle_session_timeout = '100ms'")
        is_there.set()
        goes_on.wait(30)
        return ()

    standing = DatabasePartitionManager(queue.pk, "stands", 60, settle_left=stand_still)
    other = DatabasePartitionManager(queue.pk, "other", 60, workers=None)
    with ThreadPoolExecutor(1) as pool:
        taking = pool.submit(take, standing)
        assert is_there.wait(30)
        left = set(ids(queue))

        def all_are_taken() -> bool:
            # The server gives the locks of an ended session back one by one.
            left.difference_update(owned.id for owned in other.take_only(sorted(left)))
            return not left

        eventually(all_are_taken)
        goes_on.set()
        with pytest.raises(LostError):
            taking.result()
    assert other.runs().count == 0, "one that is told what to take is no run"
    assert silence_of(other._session) == "0", "its lease tells when it is over"
    for manager in (standing, other):
        manager.close(clean=True)


def silence_of(session) -> str:
    """How long the server bears it, 0 for ever."""
    return session.execute("SHOW idle_session_timeout").fetchone()[0]


def test_what_a_run_that_stands_still_holds_is_the_share_of_the_others(broker):
    """Also where no slot is free for the run that was asked for: those who are there take it."""
    queue = a_queue(broker, partitions=PARTITIONS)
    stopped, other = (DatabasePartitionManager(queue.pk, n, 60, workers=2) for n in ("s", "o"))
    with ThreadPoolExecutor(1) as pool:
        mine = pool.submit(take, stopped).result()
    assert len(mine) == PARTITIONS
    stopped.give_up(mine[2:])
    assert len(other.take()) == 2
    assert other.runs().count == 2
    PartitionLease.objects.filter(owner=stopped.owner).update(lease_until=database_now())
    assert other.runs().count == 1
    assert other.take_more(2) == [], "left to the run that was asked for"
    waited = timedelta(seconds=sharing.NOBODY_CAME_SECONDS + 1)
    Queue.objects.update(start_requested_at=database_now() - waited)
    assert len(other.take_more(2)) == 2
    for manager in (stopped, other):
        manager.close(clean=True)


def take(manager: DatabasePartitionManager) -> list:
    """In a thread of its own: whoever takes over ends the sessions of the owner before."""
    try:
        return manager.take()
    finally:
        connections.close_all()


def ids(queue: Queue) -> list[int]:
    return list(queue.partitions.values_list("pk", flat=True))


def test_another_queue_gets_a_slot_beside_a_busy_one(world, broker):
    busy = a_queue(broker, partitions=PARTITIONS, stay_seconds=600.0, batch_size=10)
    # Twice: it has to be busy still when the other has got its slot.
    count = fill(broker, busy, fill(broker, busy))
    worker = world.worker("one", concurrency=2)
    eventually(lambda: len(owners(busy)) == 2, worker)
    other = a_queue(broker, stay_seconds=0.3)
    broker.send(other.topic, [{"n": -1}])
    eventually(lambda: Effect.objects.filter(n=-1).exists(), worker)
    assert Effect.objects.count() < count + 1
    eventually(lambda: Effect.objects.count() >= count + 1, worker)
    assert Effect.objects.count() == count + 1


def rescuer(
    broker: Kafka, queue: Queue, count: int, environment: dict[str, str], step: RescueStep
) -> tuple[WarmChild, int]:
    """A rescue of all that waits in the first partition, which stops itself at a step.

    One that begins so late that the workers are through gets more to rescue, and begins anew;
    returns the next number as well.
    """
    for _ in range(RESCUES):
        count = fill(broker, queue, count, partitions=2)
        words = [str(queue.pk), str(count // 2), step, "1", "STOP"]
        started = warm.child(["-m", "tests.support.rescue_child", *words], environment)
        with suppress(AssertionError):
            started.wait_until_stopped()
            return started, count
    raise AssertionError("no rescue found anything to do")


def test_rescues_come_between_two_workers_and_kills_between_them_all(
    world, broker, child_environment
):
    """Both give way to whoever rescues; a rescue dies, and later a run beside another rescue."""
    queue = a_queue(broker, partitions=2, stay_seconds=600.0, batch_size=10)
    count = fill(broker, queue, partitions=2)
    workers = [world.worker(name, concurrency=1) for name in ("one", "two")]
    eventually(lambda: len(owners(queue)) == 2, *workers)

    dies, count = rescuer(broker, queue, count, child_environment, RescueStep.COPIED)
    held, beside = (position(queue, partition).next_offset for partition in (0, 1))
    count = fill(broker, queue, count, partitions=2)
    eventually(lambda: position(queue, 1).next_offset > beside, *workers)
    assert position(queue, 0).next_offset == held
    dies.kill()
    eventually(lambda: position(queue, 0).next_offset > held, *workers)

    rescues, count = rescuer(broker, queue, count, child_environment, RescueStep.TAKEN)
    kill(eventually(lambda: min(owners(queue, partition=1), default=None), *workers))
    rescues.send_signal(signal.SIGCONT)
    said = rescues.communicate(timeout=60)[0]
    assert int(said.split()[0]) > 0, said
    # What it has copied is nowhere else any more.
    broker.delete_records(queue.topic, count // 2)

    eventually(lambda: Effect.objects.count() >= count, *workers)
    applied = list(Effect.objects.order_by("pk").values_list("n", flat=True))
    assert sorted(applied) == list(range(count))
    for partition in (0, 1):
        of_partition = [n for n in applied if n // EACH % 2 == partition]
        assert of_partition == sorted(of_partition)
    tracks = MessageTrack.objects.filter(queue=queue).values_list("partition", "offset")
    assert len(set(tracks)) == len(tracks) == count
    assert not MessageError.objects.exists()
    assert not Gap.objects.exists()
