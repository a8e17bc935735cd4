"""When a run gives its slot to another queue, on a real database."""

from datetime import timedelta

import pytest
from django.db import connection

from crontasks.hearts import Heart
from crontasks.models import CronInstance
from crontasks.running import turns
from integration.delivery.report import YIELD
from integration.models import Provider, Queue
from integration.store import locks
from integration.store.sessions import database_now, django_connection, raw_connection
from tests.functional.test_dispatcher import SECOND, a_lease, a_queue
from tests.support.servers import celery_at

pytestmark = [pytest.mark.servers, pytest.mark.django_db]


def waits(queue_id: int, quiet_seconds: float = 0.0) -> bool:
    with django_connection().cursor() as cursor:
        return turns.another_queue_waits(cursor, queue_id, quiet_seconds=quiet_seconds)


def test_another_queue_waits_once_its_request_is_old_enough(other_session):
    mine, other = a_queue("mine"), a_queue("other")
    Queue.objects.update(start_requested_at=database_now())
    assert not waits(mine.pk), "a single one is given more time"
    Queue.objects.update(start_requested_at=database_now() - timedelta(milliseconds=800))
    assert waits(mine.pk)
    Queue.objects.filter(pk=other.pk).update(paused=True)
    assert not waits(mine.pk), "one's own request and a paused queue do not count"
    Queue.objects.filter(pk=other.pk).update(paused=False)
    row = other.partitions.get()
    other_session.execute(locks.TRY, (locks.LockClass.PARTITION, row.pk))
    a_lease(row)
    assert not waits(mine.pk), "it is attached elsewhere"


def test_a_run_that_only_waits_for_messages_gives_way_at_once():
    mine = a_queue("mine")
    a_queue("other")
    Queue.objects.update(start_requested_at=database_now() - timedelta(milliseconds=150))
    assert not waits(mine.pk), "a run at work is given more time"
    assert waits(mine.pk, quiet_seconds=0.1)


def has_slots(number: int) -> None:
    heart = Heart(kind="worker", node="one", slots=number, queues="celery")
    heart.beat(connection.cursor(), leads=False)


def test_a_quiet_run_keeps_a_slot_free_for_the_messages_of_idle_queues(valkey):
    queues = [a_queue(f"queue-{number}") for number in range(5)]
    Queue.objects.update(provider=queues[0].provider)
    Provider.objects.update(idle_watched_at=database_now())
    others = [raw_connection("another run") for _ in range(2)]
    try:
        for session, queue in zip(others, queues, strict=False):
            session.execute(locks.TRY_SHARED, (locks.LockClass.RUN, queue.pk))

        def ending(quiet_seconds: float, chance: float = 0.0) -> str | None:
            return turns.Stop(queues[0].pk, roll=lambda: chance)(quiet_seconds=quiet_seconds)

        has_slots(4)
        assert ending(2.0) is None, "two slots are free"
        has_slots(3)
        assert ending(2.0) == YIELD, "other tasks need one, too"
        Queue.objects.filter(pk__in=[queue.pk for queue in queues[3:]]).update(enabled=False)
        has_slots(2)
        assert ending(2.0) == YIELD
        CronInstance.objects.filter(queue=queues[0]).update(interval_seconds=3_600)
        assert ending(2.0) is None, "it is not watched, and the next run would only take its place"
        CronInstance.objects.filter(queue=queues[0]).update(interval_seconds=10)
        assert ending(2.0, chance=0.9) is None, "not all runs go at once"
        assert ending(0.0) is None, "it is at work"
        Queue.objects.filter(pk=queues[2].pk).update(enabled=False)
        assert ending(2.0) is None, "each queue has a slot"
        Queue.objects.update(enabled=True)
        Provider.objects.update(idle_watched_at=None)
        assert ending(2.0) is None, "no message would start it again"
        Provider.objects.update(idle_watched_at=database_now())
        others[1].execute(locks.RELEASE_ALL)
        assert ending(2.0) is None, "a slot is free"
    finally:
        for session in others:
            session.close()


def test_many_waiting_queues_get_their_turn_after_a_fifth_of_a_second():
    mine = a_queue("mine")
    for number in range(7):
        a_queue(f"other-{number}")
    Queue.objects.update(start_requested_at=database_now() - timedelta(milliseconds=300))
    assert waits(mine.pk)


def test_a_waiting_cron_task_needs_a_slot_as_well():
    mine = a_queue("mine")
    instance = CronInstance.objects.create(name="trace", task="trace", interval_seconds=10)
    asked = CronInstance.objects.filter(pk=instance.pk)
    asked.update(asked_at=database_now() - SECOND)
    assert not waits(mine.pk)
    asked.update(asked_at=database_now() - 2 * SECOND)
    assert waits(mine.pk)
    asked.update(asked_at=database_now() - 120 * SECOND)
    assert not waits(mine.pk), "nobody takes it; giving way for ever would help nobody"


def test_stop_asks_the_database_sparingly_and_keeps_its_reason(valkey, django_assert_num_queries):
    mine = a_queue("mine")
    a_queue("other")
    now = [100.0]
    stop = turns.Stop(mine.pk, clock=lambda: now[0])
    with django_assert_num_queries(1):
        assert [stop(), stop(), stop()] == [None, None, None]
    now[0] += 0.2
    Queue.objects.update(start_requested_at=database_now() - SECOND)
    assert stop() == YIELD
    Queue.objects.update(start_requested_at=None)
    assert stop() == YIELD


def test_a_run_keeps_its_slot_while_nobody_could_take_it_nor_start_the_queue_again(valkey):
    mine = a_queue("mine")
    a_queue("other")
    Queue.objects.update(start_requested_at=database_now() - SECOND)
    now = [100.0]
    stop = turns.Stop(mine.pk, clock=lambda: now[0])
    with celery_at("redis://127.0.0.1:1/0"):
        assert stop() is None
    now[0] += 1
    assert stop() is None, "it is not asked again at once"
    now[0] += 5
    assert stop() == YIELD
