"""Real workers and beats: one tick a moment, one leader, an end at once, a start after a kill."""

import os
import signal
import subprocess
import sys
import time
from datetime import timedelta
from itertools import pairwise

import pytest
import redis
from django.db import connections
from django.utils import timezone

from crontasks.models import CronInstance, CronRun, Heartbeat
from integration.handlers import arrived
from integration.models import (
    MessageError,
    MessageTrack,
    OutboxRow,
    PartitionLease,
    Queue,
    QueuePartition,
)
from integration.store.sessions import database_now
from tests.support.builders import a_queue
from tests.support.celery_world import ROOT, CeleryWorld, celery_world, eventually
from tests.support.kafka_world import Kafka
from tests.support.world.models import Effect

pytestmark = [pytest.mark.servers, pytest.mark.django_db(transaction=True)]

SECOND = timedelta(seconds=1)
HASTY = ["tests.support.hasty_worker"]


@pytest.fixture
def world(child_environment, tmp_path):
    CronInstance.objects.all().delete()
    flush_broker(child_environment)
    with celery_world(child_environment, tmp_path) as started:
        yield started


@pytest.fixture
def broker(servers) -> Kafka:
    return Kafka(servers.kafka_bootstrap)


def flush_broker(environment: dict[str, str]) -> None:
    with redis.Redis.from_url(environment["SLUICE_CELERY_BROKER_URL"]) as client:
        client.flushall()


def a_trace(**fields) -> CronInstance:
    return CronInstance.objects.create(
        **({"name": "trace", "task": "trace", "interval_seconds": 1} | fields)
    )


def moments() -> list:
    return list(CronRun.objects.order_by("scheduled_at").values_list("scheduled_at", flat=True))


def applied() -> list[int]:
    return sorted(Effect.objects.values_list("n", flat=True))


def owned(queue: Queue) -> bool:
    return PartitionLease.objects.filter(partition__queue=queue, released_at__isnull=True).exists()


def test_two_beats_tick_each_moment_once_and_the_second_takes_over(world: CeleryWorld):
    a_trace()
    worker = world.worker("one")
    beats = {beat.pid: beat for beat in (world.beat("left"), world.beat("right"))}
    eventually(lambda: len(moments()) >= 3, worker, *beats.values())

    leaders = Heartbeat.objects.filter(kind="beat", leads=True)
    assert leaders.count() == 1
    heart = Heartbeat.objects.get(pid=worker.pid)
    assert (heart.slots, heart.queues, heart.leads) == (2, "celery", True)
    before = len(moments())
    beats[leaders.get().pid].kill()
    killed_at = timezone.now()
    eventually(lambda: len(moments()) >= before + 3, worker, *beats.values())

    seen = moments()
    assert len(set(seen)) == len(seen)
    assert {(b - a) % SECOND for a, b in pairwise(seen)} == {timedelta(0)}
    assert Heartbeat.objects.get(kind="beat", leads=True, seen_at__gt=killed_at)


def test_a_terminated_worker_ends_its_long_run_at_once_and_another_goes_on(world, broker):
    queue = a_queue(broker, stay_seconds=600.0)
    first = world.worker("one", concurrency=1)
    eventually(lambda: owned(queue), first)
    broker.send(queue.topic, [{"n": 1}])
    eventually(lambda: applied() == [1], first)
    second = world.worker("two", concurrency=1)

    asked_at = time.monotonic()
    first.process.send_signal(signal.SIGTERM)
    first.process.wait(60)
    assert time.monotonic() - asked_at < queue.stay_seconds / 10

    broker.send(queue.topic, [{"n": 2}])
    eventually(lambda: applied() == [1, 2], first, second)
    assert not Heartbeat.objects.filter(pid=first.pid).exists()


def test_a_worker_that_is_told_to_end_finishes_the_batch_it_is_at(
    child_environment, tmp_path, broker
):
    """Its partition is free then, and each message was applied once: another worker goes on."""
    CronInstance.objects.all().delete()
    flush_broker(child_environment)
    queue = a_queue(broker, stay_seconds=600.0)
    broker.send(queue.topic, [{"n": 1}, {"n": 2, "do": "hang"}, {"n": 3}])
    hangs = tmp_path / "hangs"
    hangs.touch()
    with celery_world(child_environment | {"TESTS_HANG": str(hangs)}, tmp_path) as world:
        first = world.worker("one", concurrency=1)
        eventually(in_a_handler, first)
        second = world.worker("two", concurrency=1)
        first.process.send_signal(signal.SIGTERM)
        with pytest.raises(subprocess.TimeoutExpired):
            first.process.wait(1)
        assert applied() == []
        hangs.unlink()
        assert first.process.wait(60) == 0
        assert applied() == [1, 2, 3]

        broker.send(queue.topic, [{"n": 4}])
        eventually(lambda: applied() == [1, 2, 3, 4], first, second)
    place = QueuePartition.objects.get(queue=queue)
    assert (place.next_offset, place.epoch, place.unclean_ends) == (4, 2, 0)
    endings = MessageTrack.objects.filter(queue=queue).order_by("offset")
    assert list(endings.values_list("offset", "ended")) == [(n, "APPLIED") for n in range(4)]


def in_a_handler() -> bool:
    """Whether a session of the workers idles in its transaction: a handler has the word."""
    with connections["default"].cursor() as cursor:
        cursor.execute(
            "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() "
            "AND state = 'idle in transaction' AND pid <> pg_backend_pid() "
            "AND xact_start < clock_timestamp() - interval '0.3 s')"
        )
        return bool(cursor.fetchone()[0])


def test_what_waits_for_an_object_is_applied_once_that_arrives_elsewhere(world, broker):
    """No clock brings that about: its retry is hours away, no run is attached, and no beat ticks.

    The bound is generous for a slow machine; ten times of it would do.
    """
    queue = a_queue(broker, stay_seconds=0.1, max_retries=5, retry_delay_seconds=7200)
    broker.send(queue.topic, [{"n": 1, "do": "needs", "object": "A1"}])
    worker = world.worker("one", concurrency=1)
    waiting = MessageError.objects.filter(queue=queue, state="RETRY", waits_kind="asset")
    eventually(lambda: waiting.exists() and not owned(queue), worker)

    asked_at = time.monotonic()
    arrived("asset", "A1")
    eventually(lambda: applied() == [1], worker)
    took_seconds = time.monotonic() - asked_at
    print(f"applied {took_seconds:.2f} s after its object had come")
    assert took_seconds < 30


def test_the_lock_holder_is_killed_and_another_worker_goes_on_without_a_tick(world, broker):
    queue = a_queue(broker, stay_seconds=600.0)
    first = world.worker("one", concurrency=1)
    eventually(lambda: owned(queue), first)
    second = world.worker("two", concurrency=1)
    assert Heartbeat.objects.get(kind="worker", leads=True).pid == first.pid

    first.kill()
    broker.send(queue.topic, [{"n": 1}])
    eventually(lambda: applied() == [1], first, second)
    assert QueuePartition.objects.get(queue=queue).next_offset == 1


def test_a_killed_pool_process_loses_its_partition_but_the_worker_stays(world, broker):
    queue = a_queue(broker, stay_seconds=600.0)
    worker = world.worker("one", concurrency=1)
    eventually(lambda: owned(queue), worker)
    (pool_process,) = worker.children()

    os.kill(pool_process, signal.SIGKILL)
    broker.send(queue.topic, [{"n": 1}])
    # Celery replaces a dead pool process within five seconds; another worker would be quicker.
    eventually(lambda: applied() == [1], worker)
    assert worker.process.poll() is None


def test_queues_take_turns_on_fewer_slots_and_none_waits_long(world, broker):
    queues = [a_queue(broker, stay_seconds=600.0) for _ in range(6)]
    worker = world.worker("one", concurrency=2)
    eventually(lambda: PartitionLease.objects.count() == len(queues), worker)

    for turn, queue in enumerate(queues):
        broker.send(queue.topic, [{"n": turn}])
    eventually(lambda: len(applied()) == len(queues), worker)


def test_with_a_slot_for_each_the_queues_stay_attached(world, broker):
    queues = [a_queue(broker, stay_seconds=600.0) for _ in range(2)]
    worker = world.worker("one", concurrency=3)
    beat = world.beat("beat")
    places = QueuePartition.objects.all()
    eventually(lambda: all(map(owned, queues)), worker)
    for queue in queues:
        CronInstance.objects.filter(queue=queue).update(last_scheduled_at=None)
    a_trace(timeout_seconds=5)

    def stayed() -> bool:
        """Whether four ticks went by and no run gave way.

        On a machine that stood still for a second the trace has waited for its slot, and the runs
        give theirs back as they should.
        """
        epochs, seen = dict(places.values_list("pk", "epoch")), len(moments())
        eventually(lambda: len(moments()) >= seen + 4, worker, beat)
        return dict(places.values_list("pk", "epoch")) == epochs and all(map(owned, queues))

    assert any(stayed() for _ in range(5))


def test_beat_keeps_a_relay_at_work_on_its_own_worker(world, broker):
    queue = a_queue(broker)
    CronInstance.objects.filter(queue=queue).delete()
    CronInstance.objects.create(name="relay", task="relay", interval_seconds=1)
    topic = broker.topic()
    row = OutboxRow.objects.create(
        provider=queue.provider, topic=topic, kind="MESSAGE", value=b"{}", created_at=timezone.now()
    )
    worker, beat = world.worker("relay", concurrency=1, queues="relay"), world.beat("beat")
    sent = OutboxRow.objects.filter(pk=row.pk, state="PUBLISHED")
    eventually(sent.exists, worker, beat)

    worker.process.send_signal(signal.SIGTERM)
    assert worker.process.wait(60) == 0


def test_a_run_past_its_time_limit_is_ended_and_says_so(world):
    CronInstance.objects.create(name="deaf", task="deaf", interval_seconds=1, timeout_seconds=1)
    worker, beat = world.worker("one", concurrency=1), world.beat("beat")
    run = eventually(lambda: CronRun.objects.filter(state="TIMED_OUT").first(), worker, beat)
    assert "1 seconds" in run.text


def test_beat_and_dispatcher_outlive_a_restart_of_the_database(world, servers):
    a_trace()
    worker, beat = world.worker("one"), world.beat("beat")
    eventually(moments, worker, beat)
    connections.close_all()
    servers.postgres.stop()
    servers.postgres.start()
    before = len(moments())
    eventually(lambda: len(moments()) >= before + 2, worker, beat)
    eventually(
        lambda: Heartbeat.objects.filter(leads=True, pid__in=[worker.pid, beat.pid]).count() == 2,
        worker,
        beat,
    )


def leading(kind: str) -> set[int]:
    """The processes of a kind that have just said that they lead."""
    lately = database_now() - 5 * SECOND
    hearts = Heartbeat.objects.filter(kind=kind, leads=True, seen_at__gt=lately)
    return set(hearts.values_list("pid", flat=True))


def test_leaders_that_stand_still_lose_the_lead_and_follow_when_they_go_on(world: CeleryWorld):
    a_trace()
    pairs = {
        "worker": (world.worker("one"), world.worker("two")),
        "beat": (world.beat("left"), world.beat("right")),
    }

    def one_each() -> list[int]:
        found = [leading(kind) for kind in pairs]
        return [*set().union(*found)] if all(len(pids) == 1 for pids in found) else []

    stopped = eventually(one_each, *pairs["worker"])
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    try:
        others = {kind: {child.pid for child in pair} - {*stopped} for kind, pair in pairs.items()}
        for kind, pair in pairs.items():
            eventually(lambda k=kind: leading(k) == others[k], *pair)
    finally:
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
    at_work = Heartbeat.objects.filter(pid__in=stopped, leads=False)
    eventually(lambda: at_work.count() == len(stopped), *pairs["worker"], *pairs["beat"])
    led = Heartbeat.objects.filter(leads=True)
    assert {k: set(led.filter(kind=k).values_list("pid", flat=True)) for k in pairs} == others
    assert len(set(moments())) == len(moments()), "each was run once"


def test_beat_ends_when_it_is_told_to_though_its_database_hangs(world: CeleryWorld):
    beat = world.beat("beat")
    with connections["default"].cursor() as cursor:
        cursor.execute("SELECT pid FROM pg_stat_activity WHERE application_name = 'sluice beat'")
        ((session,),) = cursor.fetchall()
    os.kill(session, signal.SIGSTOP)
    try:
        beat.process.send_signal(signal.SIGTERM)
        beat.process.wait(30)
    finally:
        os.kill(session, signal.SIGCONT)


def test_nothing_that_does_not_survive_a_fork_exists_before_it(child_environment):
    """Set up exactly what a worker's main process sets up before it forks its pool."""
    code = (
        "import os, sys\n"
        "from config.celery import app\n"
        "app.loader.init_worker()\n"
        "from django.db import connections\n"
        "assert 'crontasks.tasks.run_queue' in app.tasks\n"
        "loaded = {'psycopg_pool', 'pyarrow', 'pyspark'} & set(sys.modules)\n"
        "is_open = [c.alias for c in connections.all() if c.connection is not None]\n"
        # A Kafka client is a handful of native threads.
        "print(sorted(loaded), is_open, len(os.listdir('/proc/self/task')))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=child_environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.strip() == "[] [] 1"


def test_handlers_that_hang_take_no_slot_for_good_and_stop_no_other_queue(
    child_environment, tmp_path, broker
):
    """Two slots, and messages that hang, each in a way of its own; nobody restarts anything."""
    CronInstance.objects.all().delete()
    flush_broker(child_environment)
    hung = a_queue(broker, stay_seconds=0.1, crash_limit=1, handler_timeout_seconds=1)
    ways = ["sleep", "regex"]
    broker.send(hung.topic, [{"n": n, "do": "never", "way": way} for n, way in enumerate(ways)])
    broker.send(hung.topic, [{"n": 2}])
    other = a_queue(broker, stay_seconds=0.1)
    with celery_world(child_environment | {"SLUICE_LEASE_SECONDS": "2"}, tmp_path) as world:
        worker, beat = world.worker("one", concurrency=2, program=HASTY), world.beat("beat")
        eventually(lambda: held(hung) >= 1, worker, beat, seconds=180)
        broker.send(other.topic, [{"n": 3}])
        eventually(lambda: 3 in applied(), worker, beat)
        eventually(lambda: applied() == [2, 3] and held(hung) == 2, worker, beat, seconds=180)
        # Whenever the first one was seen: after all of them both queues go on.
        broker.send(hung.topic, [{"n": 4}])
        broker.send(other.topic, [{"n": 5}])
        eventually(lambda: applied() == [2, 3, 4, 5], worker, beat)


def held(queue: Queue) -> int:
    return MessageError.objects.filter(queue=queue, state="HOLD", code="HANDLER_TIMEOUT").count()
