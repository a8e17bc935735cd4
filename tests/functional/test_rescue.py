"""What waits is rescued from a real topic before it expires there, and read from the database."""

import time
from datetime import UTC, datetime

import pytest
from django.db import connection
from django.db.models import Sum
from django.utils import timezone

from crontasks.builtin.rescue import Rescue as RescueTask
from crontasks.builtin.rescue import RescueParameters
from crontasks.outcome import Context, Outcome, RunState
from crontasks.running import turns
from integration.actions import positions
from integration.actions.blocks import Place, adopt
from integration.delivery.rescuing import RescueStep
from integration.kafka import admin
from integration.models import Gap, Queue, QueuePartition, Rescue, RescuedRecord
from integration.runs.rescues import rescue_queue
from integration.store import rescues
from integration.store.partition_manager import DatabasePartitionManager
from integration.store.sessions import database_now, django_connection
from tests.functional.test_topic_identity import recreate
from tests.support.builders import a_brief_queue
from tests.support.flows import drain, effects, standing
from tests.support.kafka_world import Kafka
from tests.support.world.models import Effect

pytestmark = [pytest.mark.servers, pytest.mark.django_db(transaction=True)]

HOUR = 3_600


@pytest.fixture
def broker(servers) -> Kafka:
    return Kafka(servers.kafka_bootstrap)


def run_task(**parameters) -> Outcome:
    context = Context(instance_id=1, scheduled_at=timezone.now())
    return RescueTask().run(RescueParameters(**parameters), context)


def written_ago(broker: Kafka, topic: str, seconds: float, first: int, count: int) -> None:
    at = int((time.time() - seconds) * 1_000)
    broker.send(topic, [{"n": n} for n in range(first, first + count)], timestamp=at)


def an_hour_long(broker: Kafka, **fields) -> Queue:
    """A queue on a topic that keeps its messages for an hour: ten old ones, and five young."""
    queue = a_brief_queue(broker, topic=broker.topic(**{"retention.ms": f"{HOUR}000"}), **fields)
    written_ago(broker, queue.topic, 0.9 * HOUR, 0, 10)
    written_ago(broker, queue.topic, 0.1 * HOUR, 10, 5)
    return queue


def ranges(queue: Queue) -> list[tuple[int, int, int, str]]:
    rows = Rescue.objects.filter(partition__queue=queue)
    return list(rows.values_list("from_offset", "to_offset", "records", "reason"))


@pytest.mark.parametrize(
    ("fields", "reason"),
    [({"paused": True}, "PAUSED"), ({"enabled": False}, "OFF"), ({}, "LATE")],
)
def test_what_expires_within_the_margin_is_rescued_and_no_more(broker, fields, reason):
    queue = an_hour_long(broker, **fields)
    outcome = run_task()
    assert outcome.counts["rescued"] == 10
    assert ranges(queue) == [(0, 10, 10, reason)]
    assert effects() == []
    assert run_task().counts == {}
    broker.delete_records(queue.topic, 10)
    Queue.objects.update(paused=False, enabled=True)
    drain(queue)
    assert list(Effect.objects.order_by("pk").values_list("n", flat=True)) == list(range(15))
    assert (standing(queue), Gap.objects.count()) == ((15, "RUNNING", ""), 0)
    assert run_task().counts == {"swept": 10}
    assert (Rescue.objects.count(), RescuedRecord.objects.count()) == (0, 0)


def test_a_blocked_queues_head_keeps_its_failure_and_those_behind_it_are_rescued(broker):
    queue = a_brief_queue(
        broker,
        "sequential",
        topic=broker.topic(**{"retention.ms": f"{HOUR}000"}),
        max_retries=0,
        on_head_expired="stay_blocked",
    )
    old = int((time.time() - 0.9 * HOUR) * 1_000)
    broker.send(queue.topic, [{"n": 0, "do": "permanent"}], timestamp=old)
    written_ago(broker, queue.topic, 0.9 * HOUR, 1, 5)
    assert drain(queue).ending == "BLOCKED"
    run_task()
    assert ranges(queue) == [(1, 6, 5, "BLOCKED")]
    broker.delete_records(queue.topic, 6)
    assert drain(queue).ending == "BLOCKED"
    queue.errors.update(state="READY", edited_payload=b'{"n": 100}')
    drain(queue)
    assert list(Effect.objects.order_by("pk").values_list("n", flat=True)) == [100, 1, 2, 3, 4, 5]
    assert not Gap.objects.exists()


def test_where_a_topic_forgets_by_size_its_oldest_part_is_rescued(broker):
    queue = a_brief_queue(broker, topic=broker.topic(**{"retention.bytes": "100000"}), paused=True)
    broker.send(queue.topic, [{"n": n, "fill": "x" * 480} for n in range(300)])
    run_task()
    [(first, end, count, _)] = ranges(queue)
    # Three quarters of what it keeps are about 150 messages of half a kilobyte.
    assert (first, count) == (0, end)
    assert 130 < end < 170


def test_a_queue_without_rescue_and_one_that_is_read_are_left_alone(broker):
    off = an_hour_long(broker, paused=True, rescue=False)
    read = an_hour_long(broker)
    drain(read)
    assert run_task().counts == {}
    assert (ranges(off), ranges(read)) == ([], [])


def test_the_limit_is_kept_and_told_and_it_goes_on_once_there_is_room(broker):
    queue = an_hour_long(broker, paused=True, rescue_limit_mb=1)
    at = int((time.time() - 0.85 * HOUR) * 1_000)
    broker.send(queue.topic, [{"n": n, "fill": "x" * 300_000} for n in range(15, 20)], timestamp=at)
    run_task(most_hours=1, margin_percent=95)
    place = QueuePartition.objects.get(queue=queue)
    assert (place.rescue_code, place.rescued_to) == ("RESCUE_FULL", 18)
    assert Rescue.objects.aggregate(size=Sum("bytes"))["size"] <= 2**20
    Queue.objects.filter(pk=queue.pk).update(rescue_limit_mb=10)
    run_task(most_hours=1, margin_percent=95)
    place.refresh_from_db()
    assert (place.rescue_code, place.rescued_to) == ("", 20)


def test_what_one_queue_stumbles_over_does_not_end_the_rescue_of_the_next(broker, caplog):
    broken = an_hour_long(broker, name="a", paused=True)
    other = an_hour_long(broker, name="b", paused=True)
    place = QueuePartition.objects.get(queue=broken)
    with connection.cursor() as cursor:
        refused = f"CHECK (partition_id <> {place.pk})"
        cursor.execute(f"ALTER TABLE integration_rescue ADD CONSTRAINT refused {refused}")
        try:
            outcome = run_task()
        finally:
            cursor.execute("ALTER TABLE integration_rescue DROP CONSTRAINT refused")
    assert (outcome.state, outcome.counts) == (RunState.FAILED, {"rescued": 10})
    assert (ranges(broken), ranges(other)) == ([], [(0, 10, 10, "PAUSED")])
    [told] = [record for record in caplog.records if record.exc_info]
    assert told.queue == broken.pk
    assert run_task().counts["rescued"] == 10


def test_a_topic_that_is_made_anew_while_it_is_copied_gives_nothing_of_the_new_one(broker):
    queue = an_hour_long(broker, paused=True)

    def strike(step: RescueStep) -> None:
        if step is RescueStep.READ:
            recreate(broker, queue, 5)

    done = rescue_queue(queue, {0: 15}, step=strike)
    assert done.report.endings[0][0] == "TOPIC_RECREATED"
    assert (ranges(queue), RescuedRecord.objects.count()) == ([], 0)


def test_a_partition_that_somebody_works_on_is_asked_for_and_left(broker):
    queue = an_hour_long(broker)
    owner = DatabasePartitionManager(queue.pk, "run", 60.0)
    held = owner.take()
    try:
        done = rescue_queue(queue, {0: 10}, claim_seconds=0.1)
        assert (done.busy, done.disturbed, ranges(queue)) == ((0,), True, [])
        assert QueuePartition.objects.get(queue=queue).epoch == held[0].epoch
    finally:
        owner.close(clean=True)
    assert rescue_queue(queue, {0: 10}).report.records == 10


def test_an_attached_run_gives_way_to_whoever_waits_to_rescue(broker):
    queue = a_brief_queue(broker)
    with django_connection().cursor() as cursor:
        assert not turns.another_queue_waits(cursor, queue.pk)
        Queue.objects.filter(pk=queue.pk).update(rescue_wanted_at=database_now())
        assert turns.another_queue_waits(cursor, queue.pk)
        Queue.objects.filter(pk=queue.pk).update(rescue_wanted_at=datetime(2020, 1, 1, tzinfo=UTC))
        assert not turns.another_queue_waits(cursor, queue.pk)


def test_positions_go_back_among_what_stands_and_no_further(broker):
    queue = an_hour_long(broker, paused=True)
    run_task()
    broker.delete_records(queue.topic, 10)
    Queue.objects.update(paused=False)
    drain(queue)
    Queue.objects.update(paused=True)
    facts = admin.topic_facts(queue.provider, queue.topic)
    assert facts is not None
    place = QueuePartition.objects.get(queue=queue)
    move = positions.Move(0, place.epoch, 15, 4)
    why = positions.Request(actor="anna", reason="once more")
    positions.seek(queue.pk, [move], facts=facts, request=why)
    rescues.sweep()
    Queue.objects.update(paused=False)
    drain(queue)
    assert effects() == sorted([*range(15), *range(4, 15)])
    assert not Gap.objects.exists()
    # What the position had passed again is gone now, and was no more than that.
    rescues.sweep()
    assert RescuedRecord.objects.count() == 0


def test_what_is_given_up_is_removed_in_steps_and_counts_no_more(broker, monkeypatch):
    an_hour_long(broker, paused=True)
    run_task()
    monkeypatch.setattr(rescues, "SWEPT_AT_ONCE", 3)
    QueuePartition.objects.update(next_offset=8)
    assert rescues.sweep() == 8
    [row] = Rescue.objects.all()
    assert (row.from_offset, row.swept_to, row.to_offset, row.records) == (8, 8, 10, 2)
    assert row.bytes == RescuedRecord.objects.aggregate(size=Sum("size"))["size"]
    QueuePartition.objects.update(topic_uuid="another")
    assert rescues.sweep() == 2
    assert not Rescue.objects.exists()


def test_a_topic_that_lost_what_was_rescued_blocks_though_it_has_grown_since(broker):
    queue = an_hour_long(broker, paused=True)
    run_task()
    # As if the topic had ended at 17, and all of that had been rescued: it ends at 15 now.
    old = RescuedRecord.objects.values().get(offset=9)
    for n in range(10, 17):
        RescuedRecord.objects.create(**{**old, "offset": n, "value": b'{"n": %d}' % (100 + n)})
    Rescue.objects.update(to_offset=17, records=17)
    epoch = QueuePartition.objects.get().epoch
    for _ in range(2):
        run_task()
        place = QueuePartition.objects.get()
        # A run that had it would not know.
        assert (place.lost_from, place.epoch) == (15, epoch + 1)
        broker.send(queue.topic, [{"n": n} for n in range(15, 19)])
    Queue.objects.update(paused=False)

    assert drain(queue).ending == "BLOCKED"

    assert effects() == [*range(10), *range(110, 117)]
    assert standing(queue) == (17, "BLOCKED", "TOPIC_TRUNCATED")


def test_what_was_rescued_of_a_topic_that_lost_its_end_is_given_up_with_its_adoption(broker):
    """Its offsets are given to other messages."""
    queue = an_hour_long(broker, paused=True)
    rescue_queue(queue, {0: 15})
    QueuePartition.objects.update(next_offset=40, state="BLOCKED", state_code="TOPIC_TRUNCATED")
    facts = admin.topic_facts(queue.provider, queue.topic)
    adopt(queue.pk, place=Place.START, facts=facts, actor="anna")
    assert QueuePartition.objects.get(queue=queue).rescued_to is None
    assert rescues.sweep() == 15
    Queue.objects.update(paused=False)
    drain(queue)
    assert effects() == list(range(15))
