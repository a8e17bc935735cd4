"""Handler transactions side by side, on PostgreSQL and Kafka: sessions, order, what stays open."""

import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest
from django.core.exceptions import ValidationError
from django.db import connection, connections
from django.db.models import F

from integration.actions import positions, queue_stops
from integration.actions.errors import StopPassedError
from integration.actions.positions import Move, Request
from integration.delivery.batch_result import BatchResult
from integration.delivery.owned import OpenBatch, Owned
from integration.delivery.ports import LostError, Repository
from integration.models import BatchLog, Gap, PartitionLease, Queue, QueuePartition
from integration.runs.queues import run_queue
from integration.store.partition_manager import DatabasePartitionManager
from integration.values import TopicFacts
from tests.contract.repository_worlds import DatabaseWorld
from tests.support.builders import a_queue
from tests.support.celery_world import eventually
from tests.support.deliveries import a_track
from tests.support.kafka_world import Kafka
from tests.support.world.models import Effect

pytestmark = [pytest.mark.servers, pytest.mark.django_db(transaction=True)]

MESSAGES = 80
KEYS = 10
SECONDS = 0.02


@pytest.fixture
def broker(servers) -> Kafka:
    return Kafka(servers.kafka_bootstrap)


def sessions(pids: list[int]) -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE pid = ANY(%s)", [pids])
        return int(cursor.fetchone()[0])


def test_handlers_wait_side_by_side_and_each_key_keeps_its_order(broker):
    queue = a_queue(broker, concurrency=4, batch_size=40, stay_seconds=0)
    for n in range(MESSAGES):
        body = {"n": n, "do": "sleep", "seconds": SECONDS}
        broker.send(queue.topic, [body], key=f"k{n % KEYS}")
    run_queue(queue.pk)
    effects = list(Effect.objects.order_by("pk").values_list("n", flat=True))
    assert sorted(effects) == list(range(MESSAGES))
    # One thread after the other would begin with a share: twelve messages of three keys.
    assert len({n % KEYS for n in effects[:12]}) > 3
    for key in range(KEYS):
        of_key = [n for n in effects if n % KEYS == key]
        assert of_key == sorted(of_key)
    # As old as they are in the log, whatever was written first.
    by_age = Effect.objects.order_by("arrival_batch", "arrival_place").values_list("n", flat=True)
    assert list(by_age) == list(range(MESSAGES))
    logs = BatchLog.objects.order_by("number").values_list("from_offset", "to_offset")
    assert logs[0][0] == 0
    assert all(after[0] == before[1] + 1 for before, after in pairwise(logs))
    assert logs[len(logs) - 1][1] == MESSAGES - 1

    place = QueuePartition.objects.get(queue=queue)
    assert (place.next_offset, place.done_offsets, place.open_until) == (MESSAGES, [], None)
    lease = PartitionLease.objects.get(partition=place)
    assert (
        len(lease.thread_pids)
        == len(set(lease.thread_pids))
        == len(lease.thread_backend_starts)
        == 4
    )
    assert not [t for t in threading.enumerate() if t.name.startswith("handler-")]
    eventually(lambda: sessions(lease.thread_pids) == 0)


def test_of_two_commits_at_the_same_time_the_later_counts_what_the_earlier_has_closed():
    tables = DatabaseWorld()
    repository, owned = tables.repository(), tables.manager().take()[0]
    offsets = range(10, 14)
    owned.in_work = OpenBatch(arrival=1, first=10, until=14, offsets=offsets)
    is_settled, may_commit = threading.Event(), threading.Event()

    def close(*closed: int, wait: bool) -> None:
        tracks = [a_track(offset) for offset in closed]
        with repository.work(owned) as work:
            assert work.settle(BatchResult(10, closed=closed, tracks=tracks))
            if wait:
                is_settled.set()
                assert may_commit.wait(10)

    def first() -> None:
        try:
            close(10, 12, wait=True)
        finally:
            connections.close_all()

    thread = threading.Thread(target=first)
    thread.start()
    assert is_settled.wait(10)
    timer = threading.Timer(0.3, may_commit.set)
    timer.start()
    close(11, wait=False)
    thread.join()
    timer.join()
    place = QueuePartition.objects.get(pk=owned.id)
    assert (place.next_offset, place.done_ahead) == (13, [])
    assert (place.open_from, place.open_until, place.open_arrival) == (10, 14, 1)
    tables.close()


def a_thread(
    repository: Repository, owned: Owned, is_settled: threading.Event, is_taken: threading.Event
) -> list[str]:
    """Commit a part, but stand still after the row is locked; returns what came."""
    told = []
    try:
        with repository.work(owned) as work:
            assert work.settle(BatchResult(10, closed=(11,), tracks=[a_track(11)]))
            is_settled.set()
            assert is_taken.wait(20)
            work.check()
    except LostError as e:
        told.append(e.code)
    finally:
        connections.close_all()
    return told


def test_the_next_owner_ends_the_sessions_of_all_threads():
    tables = DatabaseWorld(1)
    repository, is_settled, is_taken = tables.repository(), threading.Event(), threading.Event()
    [owned] = tables.manager().take()
    owned.in_work = OpenBatch(arrival=1, first=10, until=12, offsets=(10, 11))
    other = DatabasePartitionManager(tables.record.pk, "other", 60.0)
    with ThreadPoolExecutor(1) as threads:
        thread = threads.submit(a_thread, repository, owned, is_settled, is_taken)
        assert is_settled.wait(10)
        # The owner stands still. Its own session is that of this test, which goes on.
        PartitionLease.objects.update(lease_until=F("taken_at"), batch_pid=None)
        try:
            [taken] = other.take()
        finally:
            is_taken.set()
        assert thread.result(10) == ["DATABASE_LOST"]
    assert (taken.epoch, taken.next_offset, taken.rest) == (owned.epoch + 1, 10, None)
    other.close(clean=True)
    tables.close()


@pytest.fixture
def half_done(broker) -> Queue:
    """Offsets 2, 4 and 5 of a batch of eight are through; the position is 1."""
    queue = a_queue(broker, paused=True)
    broker.send(queue.topic, [{"n": n} for n in range(10)])
    places = QueuePartition.objects.filter(queue=queue)
    places.update(next_offset=1, done_offsets=[2, 4, 5], open_from=0, open_until=8, open_arrival=1)
    return queue


def moved(broker: Kafka, queue: Queue, after: int) -> QueuePartition:
    place = QueuePartition.objects.get(queue=queue)
    facts = TopicFacts(place.topic_uuid, {0: 0}, {0: 10})
    move = Move(0, place.epoch, place.next_offset, after)
    positions.seek(queue.pk, [move], facts=facts, request=Request(actor="anna", reason="a test"))
    return QueuePartition.objects.get(queue=queue)


def applied_after_resumption(queue: Queue) -> list[int]:
    Queue.objects.filter(pk=queue.pk).update(paused=False)
    run_queue(queue.pk)
    return sorted(Effect.objects.values_list("n", flat=True))


def test_what_is_done_ahead_is_not_read_again(broker, half_done):
    assert applied_after_resumption(half_done) == [1, 3, 6, 7, 8, 9]
    # What stood open has its number from before; what lay behind it has a new one.
    kept = Effect.objects.filter(arrival_batch=1).values_list("n", flat=True)
    assert sorted(kept) == [1, 3, 6, 7]


def test_a_position_that_goes_forward_skips_what_is_open_and_keeps_what_is_done(broker, half_done):
    place = moved(broker, half_done, 4)
    assert place.done_ahead == [4, 5]
    gaps = Gap.objects.order_by("from_offset").values_list("from_offset", "to_offset")
    assert list(gaps) == [(1, 2), (3, 4)]
    assert applied_after_resumption(half_done) == [6, 7, 8, 9]


def test_a_position_that_goes_back_reads_all_of_it_again(broker, half_done):
    place = moved(broker, half_done, 0)
    assert (place.done_offsets, place.open_until) == ([], None)
    assert applied_after_resumption(half_done) == list(range(10))


def test_a_stop_lies_behind_all_that_is_done(broker, half_done):
    with pytest.raises(StopPassedError):
        queue_stops.stop_at(half_done.pk, 5, actor="anna")
    queue_stops.stop_at(half_done.pk, 7, actor="anna")
    assert applied_after_resumption(half_done) == [1, 3, 6]
    assert QueuePartition.objects.get(queue=half_done).next_offset == 7
    assert Queue.objects.get(pk=half_done.pk).paused


@pytest.mark.parametrize("kind", [{"kind": "sequential"}, {"is_error_queue": True}])
def test_a_queue_that_keeps_its_order_is_not_saved_with_a_concurrency(broker, kind):
    queue = a_queue(broker)
    for field, value in ({"concurrency": 2} | kind).items():
        setattr(queue, field, value)
    with pytest.raises(ValidationError) as refused:
        queue.full_clean()
    assert set(refused.value.message_dict) >= {"concurrency"}
