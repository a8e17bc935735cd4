"""Cleanup: only what is closed and past its retention goes; a simulation takes nothing."""

from datetime import timedelta

import pytest
from django.utils import timezone

from crontasks.builtin import lag_monitor
from crontasks.builtin.errors_cleanup import CleanupParameters, ErrorsCleanup
from crontasks.builtin.history_cleanup import HistoryCleanup, HistoryParameters
from crontasks.cleanup import simulation
from crontasks.cleanup.failures import FAILURES
from crontasks.cleanup.pasts import HISTORY
from crontasks.cleanup.rules import Rule
from crontasks.cleanup.simulation import RuleForecast
from crontasks.models import CronInstance, CronRun, Notice
from crontasks.outcome import Context
from integration.models import (
    BatchLog,
    ConfigurationChange,
    ErrorAttempt,
    ErrorChange,
    MessageError,
    MessageTrack,
    Operation,
    OperationItem,
    OutboxChange,
    OutboxRow,
    Provider,
    Queue,
    QueueChange,
    QueuePartition,
    SeenMessage,
)
from integration.values import TopicFacts

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


def test_only_closed_failures_past_their_queues_retention_go_and_take_their_tries_along():
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
    assert ErrorAttempt.objects.count() == len(kept)
    assert ErrorChange.objects.exclude(error=None).count() == len(kept)


def test_seven_days_are_the_least_however_short_the_topics_retention_is():
    hour = a_queue(retention_seconds=3_600)
    young, old = an_error(hour, days=6.9), an_error(hour, days=7.1)
    ErrorsCleanup().run(CleanupParameters(), context())
    assert remaining() == {young.pk}, old


@pytest.mark.parametrize("kind", ["sequential", "continuous"])
def test_a_failure_that_was_closed_is_spared_until_its_queue_has_come_past_its_message(kind):
    """A head, or what the position of a continuous queue went back over."""
    queue = a_queue(kind=kind)
    QueuePartition.objects.create(queue=queue, partition=0, topic_uuid="u", next_offset=50)
    spared = [
        an_error(queue, state="DELETED", offset=50),
        an_error(queue, state="DELETED", offset=51),
        an_error(queue, state="RESOLVED", ended="RETURNED", offset=52),
        an_error(queue, state="RESOLVED", ended="DELIVERED", offset=53),
    ]
    gone = [
        an_error(queue, state="DELETED", offset=49),
        an_error(queue, state="DELETED", offset=60, topic_uuid="an older topic"),
        an_error(queue, state="RESOLVED", ended="DELIVERED", offset=48),
    ]
    # What a sequential queue has applied it has passed.
    (gone if kind == "sequential" else spared).append(an_error(queue, state="RESOLVED", offset=70))
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
    (found,) = a_forecast(FAILURES)
    rows = {(old.status, old.days): old for old in found.old}
    assert {key: old.rows for key, old in rows.items()} == {
        ("RESOLVED", 8): 2,
        ("DELETED", 30): 1,
    }
    # The edited payload alone makes the difference: nine bytes and the length before them.
    assert rows["RESOLVED", 8].size_bytes - 2 * rows["DELETED", 30].size_bytes in range(9, 14)
    assert [(one.why.split(" ")[0], one.rows) for one in found.protected] == [
        ("Closed", 0),
        ("A", 0),
        ("Open:", 0),
        ("Closed", 1),
    ]
    outcome = ErrorsCleanup().run(CleanupParameters(simulate=True), asked := context())
    assert outcome.counts == {"RESOLVED": 2, "DELETED": 1}
    assert "nothing was removed" in outcome.text
    assert "2 rows RESOLVED, closed 8 days ago" in asked.excerpt
    assert MessageError.objects.count() == 4


def a_forecast(*rules: Rule, after: timedelta = timedelta(0)) -> list[RuleForecast]:
    said = HistoryCleanup.sql_values(HistoryParameters(), timezone.now())
    return simulation.forecast(rules, said, (timezone.now(), timezone.now() + after))


def test_what_becomes_due_until_a_later_run_is_told_apart():
    queue = a_queue()
    for days in (8, 6.5, 6.4, 1):
        an_error(queue, days=days)
    (found,) = a_forecast(FAILURES, after=DAY)
    assert (found.rows, found.later) == (1, (2,))


def test_a_failure_that_an_operation_still_has_before_it_is_spared():
    queue = a_queue()
    wanted, done, free = (an_error(queue, state="DELETED") for _ in range(3))
    operation = Operation.objects.create(
        verb="restore", title="Restore", actor="a", state="PAUSED", created_at=timezone.now()
    )
    for place, (row, outcome) in enumerate([(wanted, ""), (done, "DONE")]):
        OperationItem.objects.create(
            operation=operation, place=place, error=row, version=1, outcome=outcome
        )
    (found,) = a_forecast(FAILURES)
    assert [one.rows for one in found.protected if one.why.startswith("A bulk")] == [1]
    assert ErrorsCleanup().run(CleanupParameters(), context()).counts["DELETED"] == 2
    assert remaining() == {wanted.pk}, free


def test_abandoned_and_old_operations_go_and_those_under_way_stay():
    row = an_error(a_queue(), days=None, state="HOLD")
    now = timezone.now()

    def an_operation(state: str, days: float, **fields) -> Operation:
        made = Operation.objects.create(
            verb="hold", title=state, actor="a", state=state, created_at=now - days * DAY, **fields
        )
        OperationItem.objects.create(operation=made, place=0, error=row, version=1)
        return made

    old = an_operation("DONE", 91, ended_at=now - 91 * DAY)
    kept = [
        an_operation("PLANNED", 0.5),
        an_operation("RUNNING", 200),
        an_operation("PAUSED", 200),
        an_operation("DONE", 200, ended_at=now - DAY, retry_of=old),
    ]
    an_operation("PLANNED", 1.1)
    counts = HistoryCleanup().run(HistoryParameters(), context()).counts
    assert (counts["operations"], counts["operation_messages"]) == (2, 1)
    assert set(Operation.objects.values_list("pk", flat=True)) == {one.pk for one in kept}
    assert OperationItem.objects.count() == len(kept)
    assert Operation.objects.get(pk=kept[3].pk).retry_of is None


def test_what_people_decided_stays_for_ever_unless_days_are_set():
    queue = a_queue()
    at = timezone.now() - 100 * DAY
    QueueChange.objects.create(queue=queue, at=at, actor="a", action="pause")
    OutboxChange.objects.create(
        provider=queue.provider, at=at, actor="a", action="x", from_state="DEAD", to_state="PENDING"
    )
    for days in (100, 10):
        ConfigurationChange.objects.create(
            at=timezone.now() - days * DAY, actor="a", action="change", kind="queue", subject="1"
        )
    names = ("queue_decisions", "outbox_decisions", "configuration")
    counts = HistoryCleanup().run(HistoryParameters(), context()).counts
    assert [counts[name] for name in names] == [0, 0, 0]
    counts = HistoryCleanup().run(HistoryParameters(decisions_days=50), context()).counts
    assert [counts[name] for name in names] == [1, 1, 1]
    assert ConfigurationChange.objects.count() == 1


def an_outgoing(state: str, days: float, kind: str = "MESSAGE") -> OutboxRow:
    at = timezone.now() - days * DAY
    return OutboxRow.objects.create(
        provider=Provider.objects.get(),
        topic="t",
        kind=kind,
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
        an_outgoing("CANCELLED", 29),
    ]
    an_outgoing("PUBLISHED", 8)
    an_outgoing("CANCELLED", 8, kind="TICKET")
    an_outgoing("CANCELLED", 31)
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
    assert outcome.counts["outbox"] == 3
    assert outcome.counts["tracking"] == 1
    assert outcome.counts["batches"] == 1
    assert set(OutboxRow.objects.values_list("pk", flat=True)) == {r.pk for r in kept_rows}
    assert list(MessageTrack.objects.values_list("offset", flat=True)) == [29]
    assert set(BatchLog.objects.values_list("number", flat=True)) == {1, 2}


def a_seen_id(queue: Queue, days: float, *, offset: int = 1, partition: int = 0) -> SeenMessage:
    return SeenMessage.objects.create(
        queue=queue,
        message_id=f"m{SeenMessage.objects.count()}",
        content_hash=b"h",
        partition=partition,
        offset=offset,
        seen_at=timezone.now() - days * DAY,
    )


def test_ids_of_repeats_outlive_their_days_the_retention_and_the_record():
    short, long = (
        a_queue(name, retention_seconds=days * 86_400, dedupe=True)
        for name, days in (("short", 1), ("long", 60))
    )
    QueuePartition.objects.create(
        queue=short, partition=0, topic_uuid="u", next_offset=5, low_watermark=20, high_watermark=40
    )
    kept = [
        a_seen_id(short, 29, offset=3),
        a_seen_id(short, 100, offset=20),
        a_seen_id(short, 100, offset=39),
        a_seen_id(long, 59),
    ]
    gone = [
        a_seen_id(short, 31, offset=19),
        a_seen_id(short, 31, offset=40),
        a_seen_id(short, 31, offset=30, partition=1),
        a_seen_id(long, 61),
    ]
    (rule,) = (rule for rule in HISTORY if rule.name == "seen_ids")
    (found,) = a_forecast(rule)
    assert (found.rows, [one.rows for one in found.protected]) == (len(gone), [len(kept)])
    counts = HistoryCleanup().run(HistoryParameters(chunk_rows=3), context()).counts
    assert counts["seen_ids"] == len(gone)
    assert set(SeenMessage.objects.values_list("pk", flat=True)) == {one.pk for one in kept}
    counts = HistoryCleanup().run(HistoryParameters(ids_days=7), context()).counts
    assert counts["seen_ids"] == 1, "fewer days never cut into the retention or the topic"
    assert SeenMessage.objects.filter(pk=kept[0].pk).first() is None


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


def test_watermarks_are_written_only_for_the_topic_they_belong_to():
    queue = a_queue()
    for number, uuid in enumerate(["now", "before"]):
        QueuePartition.objects.create(queue=queue, partition=number, topic_uuid=uuid, next_offset=7)
    lag_monitor.write(queue.pk, TopicFacts("now", {0: 5, 1: 5}, {0: 12, 1: 12}))
    rows = list(queue.partitions.order_by("partition"))
    assert (rows[0].low_watermark, rows[0].lag) == (5, 5)
    assert rows[0].seen_at is not None
    assert rows[1].high_watermark is None
