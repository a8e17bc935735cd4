"""Cleanup: only what is closed and past its retention goes; a simulation takes nothing."""

from datetime import timedelta

import pytest
from django.utils import timezone

from crontasks.builtin import errors_cleanup, lag_monitor, reprocessing
from crontasks.builtin.errors_cleanup import CleanupParameters, ErrorsCleanup
from crontasks.builtin.history_cleanup import HistoryCleanup, HistoryParameters
from crontasks.builtin.reprocessing import Reprocessing, ReprocessingParameters
from crontasks.models import CronInstance, CronRun, Notice
from crontasks.outcome import Context
from integration.delivery.values import TopicFacts
from integration.models import (
    BatchLog,
    ErrorAttempt,
    ErrorChange,
    MessageError,
    MessageTrack,
    OutboxRow,
    Provider,
    Queue,
    QueuePartition,
)

pytestmark = [pytest.mark.servers, pytest.mark.django_db]
DAY = timedelta(days=1)


def context() -> Context:
    return Context(instance_id=1, scheduled_at=timezone.now(), actor="nightly")


def a_queue(name: str = "assets", **fields) -> Queue:
    provider, _ = Provider.objects.get_or_create(
        name="main", defaults={"bootstrap_servers": "127.0.0.1:1"}
    )
    defaults = {"kind": "continuous", "start_from": "beginning", "topic": name}
    return Queue.objects.create(name=name, provider=provider, **(defaults | fields))


def an_error(queue: Queue, *, days: float | None = 100, **fields) -> MessageError:
    now = timezone.now()
    defaults = {
        "topic_uuid": "u",
        "partition": 0,
        "offset": MessageError.objects.count(),
        "state": "RESOLVED",
        "failure_class": "transient",
        "code": "X",
        "payload": b"12345",
        "first_failed_at": now - 200 * DAY,
        "last_failed_at": now - 200 * DAY,
        "not_before": now,
        "closed_at": None if days is None else now - days * DAY,
    }
    row = MessageError.objects.create(queue=queue, **(defaults | fields))
    ErrorAttempt.objects.create(error=row, number=1, at=now, ended="RETRY")
    ErrorChange.objects.create(
        error=row, at=now, actor="a", action="hold", from_state="RETRY", to_state="HOLD"
    )
    return row


def remaining() -> set:
    return set(MessageError.objects.values_list("pk", flat=True))


def test_only_closed_failures_past_their_queues_retention_go_and_take_their_history_along():
    month = a_queue(retention_seconds=30 * 86_400)
    old = [an_error(month, days=31), an_error(month, days=40, state="DELETED")]
    kept = [
        an_error(month, days=29),
        *(an_error(month, days=None, state=state) for state in ("HOLD", "RETRY", "READY")),
        an_error(month, days=None, state="HOLD", expired_at=timezone.now() - 90 * DAY),
        an_error(month, days=None, state="PROCESSING"),
    ]
    outcome = ErrorsCleanup().run(CleanupParameters(), context())
    assert outcome.counts == {"RESOLVED": 1, "DELETED": 1}
    assert remaining() == {row.pk for row in kept}
    assert not ErrorAttempt.objects.filter(error_id__in=[row.pk for row in old]).exists()
    assert ErrorAttempt.objects.count() == ErrorChange.objects.count() == len(kept)


def test_seven_days_are_the_least_however_short_the_topics_retention_is():
    hour = a_queue(retention_seconds=3_600)
    young, old = an_error(hour, days=6.9), an_error(hour, days=7.1)
    ErrorsCleanup().run(CleanupParameters(), context())
    assert remaining() == {young.pk}, old


def test_a_deleted_head_that_its_sequential_queue_has_not_passed_is_spared():
    queue = a_queue(kind="sequential")
    QueuePartition.objects.create(queue=queue, partition=0, topic_uuid="u", next_offset=50)
    spared = [
        an_error(queue, state="DELETED", offset=50),
        an_error(queue, state="DELETED", offset=51),
    ]
    gone = [
        an_error(queue, state="DELETED", offset=49),
        an_error(queue, state="DELETED", offset=60, topic_uuid="an older topic"),
        an_error(queue, state="RESOLVED", offset=70),
    ]
    ErrorsCleanup().run(CleanupParameters(), context())
    assert remaining() == {row.pk for row in spared}, gone


def test_chunks_add_up_and_a_worker_that_ends_stops_between_them():
    queue = a_queue()
    for _ in range(7):
        an_error(queue)
    ending = context()
    ending.should_stop = lambda: MessageError.objects.count() <= 4
    assert ErrorsCleanup().run(CleanupParameters(chunk_rows=3), ending).counts["RESOLVED"] == 3
    assert MessageError.objects.count() == 4
    assert ErrorsCleanup().run(CleanupParameters(chunk_rows=3), context()).counts["RESOLVED"] == 4


def test_a_simulation_tells_rows_and_bytes_by_state_and_age_and_removes_nothing():
    queue = a_queue()
    an_error(queue, days=8.5)
    an_error(queue, days=8.1, edited_payload=b"123456789")
    an_error(queue, days=30.5, state="DELETED")
    an_error(queue, days=1)
    found = {(old.state, old.days): old for old in errors_cleanup.simulate()}
    assert {key: old.rows for key, old in found.items()} == {
        ("RESOLVED", 8): 2,
        ("DELETED", 30): 1,
    }
    assert found["RESOLVED", 8].size_bytes - 2 * found["DELETED", 30].size_bytes == 9
    outcome = ErrorsCleanup().run(CleanupParameters(simulate=True), asked := context())
    assert outcome.counts == {"RESOLVED": 2, "DELETED": 1}
    assert "nothing was removed" in outcome.text
    assert "2 rows RESOLVED, closed 8 days ago" in asked.excerpt
    assert MessageError.objects.count() == 4


def an_outgoing(state: str, days: float) -> OutboxRow:
    at = timezone.now() - days * DAY
    return OutboxRow.objects.create(
        provider=Provider.objects.get(),
        topic="t",
        kind="MESSAGE",
        state=state,
        created_at=at,
        published_at=at if state == "PUBLISHED" else None,
    )


def test_history_goes_by_its_days_and_what_waits_stays():
    queue = a_queue(retention_seconds=10 * 86_400)
    row = QueuePartition.objects.create(
        queue=queue, partition=0, topic_uuid="u", next_offset=50, low_watermark=20
    )
    kept_rows = [
        an_outgoing("PENDING", 90),
        an_outgoing("STAMPED", 90),
        an_outgoing("DEAD", 90),
        an_outgoing("PUBLISHED", 6),
    ]
    for state in ("PUBLISHED", "CANCELLED"):
        an_outgoing(state, 8)
    now = timezone.now()
    for days in (29, 31):
        MessageTrack.objects.create(
            queue=queue,
            partition=0,
            offset=days,
            arrival_batch=1,
            message_id="m",
            interface="i",
            ended="APPLIED",
            at=now - days * DAY,
        )
    for number, (days, to) in enumerate([(11, 10), (11, 25), (9, 10)]):
        BatchLog.objects.create(
            number=number,
            partition=row,
            topic_uuid="u",
            from_offset=0,
            to_offset=to,
            committed_at=now - days * DAY,
        )
    outcome = HistoryCleanup().run(HistoryParameters(chunk_rows=1), context())
    assert outcome.counts["outbox"] == 2
    assert outcome.counts["tracking"] == 1
    assert outcome.counts["batches"] == 1
    assert set(OutboxRow.objects.values_list("pk", flat=True)) == {r.pk for r in kept_rows}
    assert list(MessageTrack.objects.values_list("offset", flat=True)) == [29]
    assert set(BatchLog.objects.values_list("number", flat=True)) == {1, 2}


def test_each_instance_keeps_its_number_of_runs_and_open_notices_stay():
    few = CronInstance.objects.create(name="few", task="trace", interval_seconds=10, keep_runs=2)
    many = CronInstance.objects.create(name="many", task="trace", interval_seconds=10)
    now = timezone.now()
    for instance in (few, many):
        for hours in range(5):
            started_at = now - timedelta(hours=hours)
            CronRun.objects.create(instance=instance, started_at=started_at, state="DONE")
    old = {"subject": "s", "text": "t", "opened_at": now - 200 * DAY}
    Notice.objects.create(kind="GAP", closed_at=now - 91 * DAY, **old)
    Notice.objects.create(kind="GAP", **old)
    counts = HistoryCleanup().run(HistoryParameters(), context()).counts
    assert (counts["runs"], counts["notices"]) == (3, 1)
    assert few.runs.count() == 2
    assert few.runs.first().started_at == now
    assert many.runs.count() == 5
    assert Notice.objects.get().closed_at is None


def test_reprocessing_releases_what_matches_in_arrival_order_and_nothing_else():
    queue, other = a_queue(), a_queue("other")
    QueuePartition.objects.create(queue=queue, partition=0, topic_uuid="u", next_offset=50)
    held = {"days": None, "state": "HOLD", "code": "SERVICE_DISABLED"}
    second = an_error(queue, **held, arrival_batch=2, arrival_index=1)
    first = an_error(queue, **held, arrival_batch=1, arrival_index=9)
    others = [
        an_error(queue, **(held | {"code": "SCHEMA"})),
        an_error(other, **held),
        an_error(queue, **held, last_failed_at=timezone.now()),
        an_error(queue, days=1),
    ]
    wanted = ReprocessingParameters(queue="assets", code="SERVICE_DISABLED", per_second=1_000.0)
    assert list(reprocessing.matching(wanted)) == [first, second]
    outcome = Reprocessing().run(wanted, context())
    assert outcome.counts == {"RELEASED": 2}
    states = dict(MessageError.objects.values_list("pk", "state"))
    assert (states[first.pk], states[second.pk]) == ("READY", "READY")
    assert {states[row.pk] for row in others} == {"HOLD", "RESOLVED"}
    change = ErrorChange.objects.filter(error=first).latest("at")
    assert (change.actor, change.reason) == ("nightly", "scheduled reprocessing")


def test_reprocessing_keeps_its_pace_and_its_limit():
    queue = a_queue()
    QueuePartition.objects.create(queue=queue, partition=0, topic_uuid="u", next_offset=50)
    for _ in range(6):
        an_error(queue, days=None, state="HOLD")
    began = timezone.now()
    outcome = Reprocessing().run(ReprocessingParameters(at_most=4, per_second=20.0), context())
    assert outcome.counts == {"RELEASED": 4}
    assert timezone.now() - began >= timedelta(seconds=3 / 20)


def test_watermarks_are_written_only_for_the_topic_they_belong_to():
    queue = a_queue()
    for number, uuid in enumerate(["now", "before"]):
        QueuePartition.objects.create(queue=queue, partition=number, topic_uuid=uuid, next_offset=7)
    lag_monitor.write(queue.pk, TopicFacts("now", {0: 5, 1: 5}, {0: 12, 1: 12}))
    rows = list(queue.partitions.order_by("partition"))
    assert (rows[0].low_watermark, rows[0].lag) == (5, 5)
    assert rows[0].seen_at is not None
    assert rows[1].high_watermark is None
