"""Slots that calls take: named on the overview, by check_flow, by /readyz and in notices."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.test import Client

from console.monitoring.health import standing
from crontasks.health import flow_work, slots
from crontasks.health.checks import check
from crontasks.health.live_processes import live_processes
from crontasks.health.slots import Stage
from crontasks.models import CronInstance, Heartbeat, Notice
from crontasks.notices import book, conditions
from crontasks.problems import asking, finding
from crontasks.running import starts
from integration.models import ExternalSystem, PartitionLease, Queue, QueuePartition
from integration.selectors.queues import queues
from integration.selectors.scope import Scope
from integration.store import locks, sharing
from integration.store.sessions import database_now, django_connection, execute, raw_connection
from tests.functional.flow_world import a_heart
from tests.support.rows import a_held, a_place, a_queue_row, some_live_processes

pytestmark = [pytest.mark.servers, pytest.mark.django_db]
SECOND = timedelta(seconds=1)
LEASE = timedelta(seconds=settings.SLUICE_LEASE_SECONDS)


@pytest.fixture
def holder(valkey: object) -> Iterator[Any]:
    """A session that holds the partitions' locks as workers do."""
    some_live_processes()
    Heartbeat.objects.all().delete()
    a_heart("beat")
    a_heart("worker", slots=1, queues="celery")
    a_heart("worker", slots=1, queues="relay", node="relay@host")
    with raw_connection("test") as session:
        yield session


def a_run(holder: Any, name: str = "orders", *, held: bool = True, **lease: Any) -> QueuePartition:
    """A queue that is being run; its call began a moment ago."""
    queue = a_queue_row(name=name, kind="continuous", handler_timeout_seconds=60)
    place = a_place(queue, next_offset=5)
    now = database_now()
    values = {
        "owner": f"host:7{place.pk}/abc",
        "epoch": 1,
        "lock_pid": 1,
        "lock_backend_start": now,
        "lease_until": now + LEASE,
        "working_since": now - SECOND,
        "taken_at": now - 90 * SECOND,
    }
    PartitionLease.objects.create(partition=place, **(values | lease))
    if held:
        holder.execute(locks.TRY, (locks.LockClass.PARTITION, place.pk))
    return place


def hung(holder: Any, **more: Any) -> QueuePartition:
    return a_run(holder, overdue=True, working_since=database_now() - 61 * SECOND, **more)


def a_waiting_queue(age: timedelta = SECOND, **fields: Any) -> Queue:
    queue = a_queue_row(name="waiting", kind="continuous", **fields)
    a_place(queue)
    asked_at = database_now() - age
    Queue.objects.filter(pk=queue.pk).update(
        start_requested_at=asked_at, changed_at=asked_at - 60 * SECOND
    )
    return queue


def told() -> list[str]:
    """What is wrong on the overview."""
    alive = live_processes()
    found = finding.problems(asking.ask(queues.standing(alive), alive, {}))
    return [one.what for one in found]


def notices() -> dict[str, str]:
    book.settle(conditions.seen_by_workers(is_settled=False), conditions.WORKER_KINDS)
    return dict(Notice.objects.filter(closed_at=None).values_list("kind", "text"))


def readyz() -> dict[str, str]:
    standing.forget()
    checks: list[dict[str, str]] = Client().get("/readyz").json()["checks"]
    return next(one for one in checks if one["name"] == "slots")


def test_a_run_at_work_takes_a_slot_and_nothing_is_wrong(holder):
    place = a_run(holder)
    assert [run.stage for run in slots.look().runs] == [Stage.WORKS]
    assert told() == []
    assert check("slot", flow_work.slot(place.queue)).ok
    assert notices() == {}
    assert readyz()["state"] == "ok"


def test_a_call_that_hangs_is_named_with_its_place_and_the_end_of_its_process(holder):
    place = hung(holder)
    (run,) = slots.look().runs
    lease = PartitionLease.objects.get()
    assert run.ends_by == lease.working_since + 60 * SECOND + 0.6 * LEASE

    link = check("slot", flow_work.slot(place.queue))

    assert not link.ok
    for said in ("partition 0", "offset 5", f"{run.since:%H:%M:%S}"):
        assert said in link.why
    assert f"{run.ends_by:%H:%M:%S}" in link.next_step
    assert "HANDLER_TIMEOUT" in link.next_step
    assert told() == ["A call of orders hangs"]
    assert "offset 5" in notices()["HUNG"]
    ready = readyz()
    assert (ready["state"], "orders" in str(ready)) == ("ok", False)
    assert "1 by calls that hang" in ready["why"]


def test_a_call_that_lets_no_thread_run_is_known_by_its_lease(holder):
    place = a_run(holder, lease_until=database_now() + LEASE / 4)
    (run,) = slots.look().runs
    assert (run.stage, run.is_silent) == (Stage.HANGS, True)
    assert run.ends_by == PartitionLease.objects.get().lease_until
    assert not check("slot", flow_work.slot(place.queue)).ok
    assert notices() == {}, "renewals may be late for other reasons, too"


def test_a_process_that_outlives_its_end_is_to_be_killed(holder):
    place = a_run(holder, lease_until=database_now() - 3 * SECOND)
    assert check("slot", flow_work.slot(place.queue)).ok
    link = check("lock", flow_work.lock(place.queue))
    assert not link.ok
    assert "kill" in link.next_step
    assert f"kill {place.lease.owner.partition('/')[0]}" in notices()["HUNG"]


def test_a_queue_that_waits_behind_a_call_that_hangs_is_told_at_once(holder):
    hung(holder)
    queue = a_waiting_queue()

    link = check("slot", flow_work.slot(queue))

    assert not link.ok
    assert "orders" in link.why
    assert told()[0] == "All worker slots are taken"
    assert set(notices()) == {"HUNG"}, "a wait of a second is nobody's mail"
    assert readyz()["state"] == "ok"


def test_a_free_slot_leaves_nobody_waiting(holder):
    Heartbeat.objects.filter(queues="celery").update(slots=2)
    hung(holder)
    queue = a_waiting_queue()
    assert check("slot", flow_work.slot(queue)).ok
    assert len(told()) == 1
    Queue.objects.filter(pk=queue.pk).update(start_requested_at=database_now() - 40 * SECOND)
    assert not check("slot", flow_work.slot(queue)).ok


def test_slots_that_are_all_at_work_are_told_once_a_queue_waits_for_long(holder):
    a_run(holder)
    queue = a_waiting_queue(2 * SECOND)
    assert check("slot", flow_work.slot(queue)).ok
    assert told() == []

    Queue.objects.filter(pk=queue.pk).update(start_requested_at=database_now() - 70 * SECOND)
    link = check("slot", flow_work.slot(queue))
    assert not link.ok
    assert "orders" in link.why
    assert "-c 2" in link.next_step
    assert len(told()) == 1
    assert "orders" in notices()["NO_SLOT"]
    ready = readyz()
    assert (ready["state"], "orders" in str(ready)) == ("failing", False)

    Queue.objects.filter(pk=queue.pk).update(start_requested_at=database_now() - 86_410 * SECOND)
    assert readyz()["state"] == "failing", "however long it waits"


def test_a_wait_goes_on_over_repeated_requests_until_a_run_begins(holder):
    a_run(holder)
    queue = a_waiting_queue()
    queue.refresh_from_db()
    CronInstance.objects.filter(queue=queue).update(asked_at=None)
    Queue.objects.filter(pk=queue.pk).update(start_requested_at=None)
    for late in (15 * SECOND, 40 * SECOND, 90 * SECOND):
        with django_connection().cursor() as cursor:
            assert starts.request(cursor, queue.pk)
        instance = CronInstance.objects.get(queue=queue)
        CronInstance.objects.filter(pk=instance.pk).update(
            asked_at=instance.asked_at - late, waits_since=instance.waits_since - late
        )
        asked_at = Queue.objects.get(pk=queue.pk).start_requested_at
        Queue.objects.filter(pk=queue.pk).update(start_requested_at=asked_at - late)
    found = slots.look()
    (wait,) = found.waits
    assert 145 * SECOND <= found.now - wait.since < 160 * SECOND

    PartitionLease.objects.create(
        partition=queue.partitions.get(),
        owner="host:1/x",
        epoch=1,
        lock_pid=1,
        lock_backend_start=database_now(),
        lease_until=database_now(),
        taken_at=database_now(),
        released_at=database_now(),
    )
    execute(sharing.IS_SERVED, [queue.pk])
    with django_connection().cursor() as cursor:
        assert starts.request(cursor, queue.pk)
    found = slots.look()
    (wait,) = found.waits
    assert found.now - wait.since < 10 * SECOND, "a run took it: this is another wait"


def test_after_its_process_has_ended_and_while_it_runs_alone_the_advice_is_another(holder):
    place = hung(holder, held=False)
    (run,) = slots.look().runs
    assert (run.stage, slots.look().taking) == (Stage.ENDED, {})
    assert check("slot", flow_work.slot(place.queue)).ok
    assert told() == ["A call of orders hung"]
    assert "ended" in notices()["HUNG"]

    # The next run: its marker names the message.
    holder.execute(locks.TRY, (locks.LockClass.PARTITION, place.pk))
    QueuePartition.objects.update(suspect_hung=True, unclean_offset=5, suspect_offset=5)
    PartitionLease.objects.update(overdue=False, working_since=database_now())
    (run,) = slots.look().runs
    assert (run.stage, run.alone) == (Stage.AGAIN, 5)
    assert "runs alone" in check("slot", flow_work.slot(place.queue)).why
    assert "offset 5" in notices()["HUNG"]

    # It is held, or was applied: the run goes on behind it.
    QueuePartition.objects.update(next_offset=6)
    assert told() == []
    assert notices() == {}


def test_a_failure_that_runs_alone_is_named_by_its_own_offset(holder):
    place = hung(holder)
    a_held(place.queue, 2, state="PROCESSING", epoch=place.epoch)
    QueuePartition.objects.update(marked_at=database_now())
    (run,) = slots.look().runs
    assert run.alone == 2


def test_other_queues_are_named_to_nobody_who_may_not_know_of_them(holder):
    hung(holder)
    queue = a_waiting_queue()
    system = ExternalSystem.objects.create(name="partner")
    Queue.objects.filter(pk=queue.pk).update(system=system)
    queue.refresh_from_db()

    link = check("slot", flow_work.slot(queue, Scope(frozenset({system.pk}))))

    assert not link.ok
    assert "orders" not in link.why + link.next_step
    assert "1 other run" in link.why


def test_slots_cost_two_statements(holder, django_assert_num_queries):
    hung(holder)
    a_waiting_queue()
    with django_assert_num_queries(2):
        slots.look()
