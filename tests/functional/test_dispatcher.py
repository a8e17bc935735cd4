"""What the dispatcher finds due, and what a request is, on a real database."""

from datetime import datetime, timedelta

import pytest
from django.db import connection
from django.db.models import F
from django.utils import timezone

from crontasks import leadership, ticks
from crontasks.dispatch import due
from crontasks.hearts import Heart, are_alive
from crontasks.models import CronInstance, Heartbeat
from crontasks.running import starts
from integration.models import MessageError, PartitionLease, Provider, Queue, QueuePartition
from integration.store import locks
from integration.store.sessions import database_now, django_connection
from integration.store.starts import leave_request
from tests.functional.test_dispatcher_processes import flush_broker
from tests.support.servers import celery_at

pytestmark = [pytest.mark.servers, pytest.mark.django_db]
SECOND = timedelta(seconds=1)
STRICT = {"kind": "sequential", "is_error_queue": True, "strict_order": True}
NOWHERE = "redis://127.0.0.1:1/0"


def a_queue(name: str = "assets", *, partitions: int = 1, taken: bool = True, **fields) -> Queue:
    provider, _ = Provider.objects.get_or_create(
        name="main", defaults={"bootstrap_servers": "127.0.0.1:1"}
    )
    defaults = {"kind": "continuous", "start_from": "beginning", "topic": name}
    queue = Queue.objects.create(name=name, provider=provider, **(defaults | fields))
    for number in range(partitions):
        row = QueuePartition.objects.create(
            queue=queue, partition=number, topic_uuid="u", next_offset=10
        )
        if taken:
            a_lease(row, released_at=database_now())
    return queue


def a_lease(row: QueuePartition, *, seconds: float = 10, **fields) -> None:
    PartitionLease.objects.update_or_create(
        partition=row,
        defaults={
            "owner": "host:1",
            "epoch": 1,
            "lock_pid": 1,
            "lock_backend_start": database_now(),
            "lease_until": database_now() + timedelta(seconds=seconds),
            "taken_at": database_now(),
            "released_at": None,
        }
        | fields,
    )


def an_error(queue: Queue, offset: int = 1, **fields) -> MessageError:
    now = timezone.now()
    return MessageError.objects.create(
        queue=queue,
        **(
            {
                "topic_uuid": "u",
                "partition": 0,
                "offset": offset,
                "state": "RETRY",
                "not_before": database_now() - SECOND,
                "carrier": "row",
                "failure_class": "transient",
                "code": "X",
                "first_failed_at": now,
                "last_failed_at": now,
            }
            | fields
        ),
    )


def causes() -> list[str]:
    with django_connection().cursor() as cursor:
        return sorted({found.cause.split()[0] for found in due.find(cursor).due})


def request(queue: Queue) -> datetime | None:
    with django_connection().cursor() as cursor:
        return starts.request(cursor, queue.pk)


def is_quiet() -> bool:
    with django_connection().cursor() as cursor:
        return due.find(cursor, is_thorough=False).is_quiet


def test_a_quiet_queue_is_not_due():
    a_queue()
    assert causes() == []
    assert is_quiet()


@pytest.mark.parametrize("what", ["a run", "a failure", "a state", "a request"])
def test_it_is_not_quiet_where_something_may_become_due(what):
    queue = a_queue()
    row = QueuePartition.objects.get()
    match what:
        case "a run":
            a_lease(row)
        case "a failure":
            an_error(queue, not_before=database_now() + 60 * SECOND)
        case "a state":
            QueuePartition.objects.update(state="OUTAGE", resume_at=database_now() + 60 * SECOND)
        case "a request":
            assert request(queue)
    assert not is_quiet()


def test_a_queue_without_partitions_and_one_nobody_ever_took_are_due():
    a_queue("new", partitions=0)
    assert causes() == ["never"]
    Queue.objects.all().delete()
    a_queue("fresh", taken=False)
    assert causes() == ["never"]


@pytest.mark.parametrize(
    "switch",
    [{"enabled": False}, {"paused": True}, {"direction": "outbound"}],
)
def test_nobody_starts_what_is_switched_off(switch):
    queue = a_queue("new", partitions=0)
    Queue.objects.update(**switch)
    assert causes() == []
    assert not request(queue)


def test_an_inactive_instance_is_a_switch_as_well():
    a_queue("new", partitions=0)
    CronInstance.objects.filter(queue__isnull=False).update(active=False)
    assert causes() == []


@pytest.mark.parametrize("state", ["BACKOFF", "OUTAGE"])
def test_a_pause_ends_at_its_time_and_not_before(state):
    queue = a_queue()
    rows = QueuePartition.objects.filter(queue=queue)
    rows.update(state=state, resume_at=database_now() + 60 * SECOND)
    an_error(queue)
    assert causes() == []
    rows.update(resume_at=database_now() - SECOND)
    assert causes() == ["resumes", "rows"]


def test_rows_are_due_when_ready_or_when_their_reminder_had_its_grace():
    queue = a_queue()
    row = an_error(queue, carrier="topic")
    assert causes() == []
    MessageError.objects.update(not_before=database_now() - 31 * SECOND)
    assert causes() == ["rows"]
    MessageError.objects.update(not_before=database_now() + SECOND, carrier="row")
    assert causes() == []
    MessageError.objects.update(state="READY")
    assert causes() == ["rows"]
    MessageError.objects.update(state="HOLD")
    assert causes() == []
    MessageError.objects.update(state="READY", partition=7)
    assert causes() == ["rows"], f"{row} belongs to a partition that is gone"


def test_a_row_that_waits_for_its_turn_on_a_strict_error_queue_is_not_due():
    strict = a_queue("errors", kind="sequential", is_error_queue=True, strict_order=True)
    queue = a_queue(error_queue=strict)
    first = an_error(queue, 1, state="HOLD", copied_at=database_now() - SECOND)
    an_error(queue, 2, state="READY", copied_at=database_now())
    assert causes() == []
    MessageError.objects.filter(pk=first.pk).update(state="READY")
    assert causes() == ["rows"]
    MessageError.objects.filter(pk=first.pk).update(state="HOLD")
    Queue.objects.filter(pk=strict.pk).update(strict_order=False)
    assert causes() == ["rows"]


def test_a_row_has_its_turn_on_a_strict_error_queue_before_later_ones_of_its_key():
    strict = a_queue("errors", kind="sequential", is_error_queue=True, strict_order=True)
    queue = a_queue(error_queue=strict, ordering="key")
    now, of_key = database_now(), {"order_key": b"k" * 16, "arrival_batch": 1}
    an_error(queue, 2, state="READY", copied_at=now - SECOND, arrival_index=2, **of_key)
    assert causes() == ["rows"]
    first = an_error(queue, 1, state="HOLD", copied_at=now, arrival_index=1, **of_key)
    assert causes() == []
    MessageError.objects.filter(pk=first.pk).update(state="READY")
    assert causes() == ["rows"]


def test_an_error_queue_at_a_copy_is_due_when_the_failure_is_closed():
    strict = a_queue("errors", kind="sequential", is_error_queue=True, strict_order=True)
    first = an_error(a_queue(error_queue=strict), state="HOLD", copied_at=database_now())
    at_copy = QueuePartition.objects.filter(queue=strict)
    at_copy.update(state="BLOCKED", state_code="HEAD_HELD", state_error=first.pk)
    assert causes() == []
    MessageError.objects.update(state="RESOLVED")
    assert causes() == ["unblocked"]


def test_an_attached_owner_takes_its_rows_itself(other_session):
    queue = a_queue(partitions=2)
    an_error(queue, state="READY")
    first = queue.partitions.get(partition=0)
    other_session.execute(locks.TRY, (locks.LockClass.PARTITION, first.pk))
    a_lease(first)
    assert causes() == []
    MessageError.objects.update(partition=1)
    assert causes() == ["rows"]


def test_a_partition_whose_owner_is_gone_or_stopped_is_due(other_session):
    row = a_queue().partitions.get()
    other_session.execute(locks.TRY, (locks.LockClass.PARTITION, row.pk))
    a_lease(row)
    assert causes() == []

    a_lease(row, seconds=-1)
    assert causes() == ["abandoned"], "it holds the lock and let its lease lapse"

    a_lease(row)
    other_session.execute(locks.RELEASE, (locks.LockClass.PARTITION, row.pk))
    assert causes() == ["abandoned"], "it is dead: nobody holds the lock"


def test_what_waits_is_looked_at_again_and_a_deleted_head_unblocks():
    queue = a_queue()
    QueuePartition.objects.update(state="WAITING")
    assert causes() == ["waits"]
    error = an_error(queue, state="HOLD", offset=10)
    QueuePartition.objects.update(state="BLOCKED", state_error=error.pk)
    assert causes() == []
    MessageError.objects.update(state="DELETED")
    assert causes() == ["unblocked"]


@pytest.mark.parametrize(
    ("code", "promised", "kept"),
    [
        ("KEYS_REMAPPED", {"ordering": "key"}, {"ordering": "none"}),
        ("MORE_PARTITIONS", {"ordering": "key", "order_path": "$.n"}, {"ordering": "none"}),
        ("MORE_PARTITIONS", {"ordering": "key", "order_path": "$.n"}, {"order_path": ""}),
        ("MORE_PARTITIONS", STRICT, {"strict_order": False}),
    ],
)
def test_a_topic_that_keeps_no_order_blocks_as_long_as_one_is_promised(code, promised, kept):
    a_queue(**promised)
    QueuePartition.objects.update(state="BLOCKED", state_code=code)
    assert causes() == []
    Queue.objects.update(**kept)
    assert causes() == ["unordered"]


def later(seconds: int) -> None:
    """Let all requests stand, and have been sent, so much longer."""
    past = seconds * SECOND
    Queue.objects.update(start_requested_at=F("start_requested_at") - past)
    CronInstance.objects.update(asked_at=F("asked_at") - past)


def test_a_request_stands_once_and_is_sent_again_after_ten_seconds():
    queue = a_queue()
    assert request(queue)
    assert not request(queue)
    assert causes() == []
    later(11)
    assert causes() == ["requested"]
    assert request(queue)
    assert causes() == []


def test_a_request_that_has_waited_for_long_is_sent_again_ever_more_rarely():
    queue = a_queue()
    instance = CronInstance.objects.get(queue=queue)
    now = database_now()

    def is_sent(waited_seconds: int, *, sent_ago_seconds: int) -> bool:
        Queue.objects.update(start_requested_at=now - waited_seconds * SECOND)
        CronInstance.objects.update(asked_at=now - sent_ago_seconds * SECOND)
        return request(queue) is not None

    assert instance.queue_id == queue.pk
    assert is_sent(12, sent_ago_seconds=11)
    assert not is_sent(40, sent_ago_seconds=15), "it was sent last when it was 25 s old"
    assert is_sent(60, sent_ago_seconds=35)
    assert is_sent(3_600, sent_ago_seconds=130), "but every two minutes"


def test_a_start_is_good_until_its_request_is_served_however_often_it_is_sent():
    queue = a_queue()
    first = request(queue)
    assert starts.stands(queue.pk, datetime.fromisoformat(first.isoformat()))
    later(11)
    first -= 11 * SECOND
    assert request(queue) == first, "whichever Celery task comes first serves it"
    Queue.objects.update(start_requested_at=None)
    assert not starts.stands(queue.pk, first), "a run has served it"
    assert request(queue) > first
    assert not starts.stands(queue.pk, first), "it is another one"


def test_a_tick_sends_no_request_before_its_time():
    queue = a_queue()
    assert request(queue)
    instance = CronInstance.objects.get(queue=queue)
    assert ticks.claim(instance.pk, database_now()) is not None
    assert not request(queue)


def test_a_persons_request_goes_out_at_the_next_look_not_after_ten_seconds():
    queue = a_queue()
    assert leave_request(queue.pk)
    assert causes() == ["requested"]
    assert request(queue)
    assert causes() == []


@pytest.mark.parametrize("who", ["tick", "person"])
def test_a_request_that_the_broker_did_not_take_goes_out_once_it_is_back(
    who, valkey, child_environment
):
    queue = a_queue()
    if who == "person":
        assert leave_request(queue.pk)
    with celery_at(NOWHERE):
        if who == "tick":
            ticks.tick(CronInstance.objects.get(queue=queue).pk, timezone.now())
        else:
            assert not starts.ask(queue.pk)
    first = Queue.objects.get().start_requested_at
    assert first is not None, "the moment does not come again before the next night"
    assert causes() == ["requested"]

    assert starts.ask(queue.pk)
    assert Queue.objects.get().start_requested_at == first
    assert causes() == [], "it was sent a moment ago"
    flush_broker(child_environment)


def test_nothing_is_asked_while_every_partition_is_held(other_session):
    queue = a_queue()
    row = queue.partitions.get()
    other_session.execute(locks.TRY, (locks.LockClass.PARTITION, row.pk))
    a_lease(row)
    assert not request(queue)
    assert Queue.objects.get().start_requested_at is None
    with django_connection().cursor() as cursor:
        assert starts.request(cursor, queue.pk, was_mine=True), "its run has just ended"


def test_one_of_two_leads_and_the_other_follows_when_its_session_ends():
    first = leadership.Leadership(locks.LockClass.DISPATCHER, "first")
    second = leadership.Leadership(locks.LockClass.DISPATCHER, "second")
    try:
        assert (first.stand(), second.stand()) == (True, False)
        assert (first.stand(), second.stand()) == (True, False)
        pid = first.session().info.backend_pid
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(%s, 2000)", (pid,))
        assert second.stand()
        with pytest.raises(leadership.psycopg.Error):
            first.stand()
        assert not first.stand()
    finally:
        first.resign()
        second.resign()


def test_a_heart_that_beats_is_alive_and_says_how_far_its_clock_is_off():
    heart = Heart(kind="worker", node="w@host", slots=4, queues="celery")
    with django_connection().cursor() as cursor:
        assert not are_alive(cursor, "worker")
        heart.beat(cursor, leads=False)
        heart.beat(cursor, leads=True)
        assert are_alive(cursor, "worker")
        assert not are_alive(cursor, "beat")
        row = Heartbeat.objects.get()
        assert (row.leads, row.slots, row.queues) == (True, 4, "celery")
        assert abs(row.clock_skew_seconds) < 1
        Heartbeat.objects.update(seen_at=database_now() - 20 * SECOND)
        assert not are_alive(cursor, "worker")
        heart.stop(cursor)
    assert not Heartbeat.objects.exists()
