"""What is noticed beyond a threshold, and what a rule would have done in the last seven days."""

from dataclasses import dataclass
from datetime import timedelta
from itertools import count
from typing import Any

import pytest
from django.db import connection
from django.db.models import F
from django.utils import timezone

from crontasks import ticks
from crontasks.errors import RunUnderWayError
from crontasks.instances import actions
from crontasks.models import CronInstance, CronRun, Heartbeat, LagSample, Notice, NoticeRule
from crontasks.models.notice import NoticeKind
from crontasks.notices import conditions, lag_samples, measures, rules, schedules
from crontasks.notices.condition import Condition
from crontasks.notices.preview import Preview, preview
from crontasks.running import history
from integration.actions.configuration import Author
from integration.models import ExternalSystem, MessageError, Queue, QueuePartition
from integration.store import locks
from integration.store.sessions import database_time, raw_connection
from tests.support.rows import a_held, a_place, a_queue_row

pytestmark = [pytest.mark.servers, pytest.mark.django_db]
NUMBERS = count()
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
LAG, OLDEST, FAILURES = NoticeKind.LAG, NoticeKind.OLDEST, NoticeKind.FAILURES


@dataclass(frozen=True)
class EngineReport:
    """What the engine says of a run; see history.Report."""

    counts: dict[str, int]
    ending: str
    text: str
    drained: bool


@pytest.fixture
def assets() -> Queue:
    """Reads every ten seconds; 50 messages wait, the oldest of them for two hours."""
    queue = a_queue_row("continuous", name="assets", system=ExternalSystem.objects.create(name="e"))
    oldest = database_time() - 2 * HOUR
    a_place(queue, next_offset=10, high_watermark=60, oldest_waiting_at=oldest)
    return queue


def found(look: Any) -> dict[str, str]:
    """The subjects of what a look of `measures` or `schedules` finds now, with their kinds."""
    with connection.cursor() as cursor:
        conditions_now: list[Condition] = list(look(cursor, rules.load()))
    return {one.subject: str(one.kind) for one in conditions_now}


def a_rule(**fields: Any) -> NoticeRule:
    rule = NoticeRule(name=f"r{next(NUMBERS)}", **fields)
    rule.full_clean()
    rule.save()
    return rule


class TestWaiting:
    def test_the_oldest_is_noticed_by_default_and_the_number_by_a_rule(self, assets: Queue) -> None:
        assert found(measures.waiting) == {"assets": OLDEST}
        rule = a_rule(kind=OLDEST, queue=assets, longer_than_seconds=3 * 3_600)
        assert found(measures.waiting) == {}
        a_rule(kind=LAG, at_least=50)
        assert found(measures.waiting) == {"assets": LAG}
        rule.delete()
        a_rule(kind=LAG, queue=assets, at_least=51)
        assert found(measures.waiting) == {"assets": OLDEST}

    @pytest.mark.parametrize("state", ["BLOCKED", "BRAKED", "OUTAGE", "WAITING"])
    def test_what_stands_still_has_a_notice_of_its_own(self, assets: Queue, state: str) -> None:
        assets.partitions.update(state=state)
        assert found(measures.waiting) == {}

    def test_a_paused_queue_is_late_on_purpose(self, assets: Queue) -> None:
        Queue.objects.update(paused=True)
        assert found(measures.waiting) == {}

    def test_a_queue_that_is_read_at_night_may_wait_all_day(self, assets: Queue) -> None:
        own = CronInstance.objects.filter(queue=assets)
        own.update(interval_seconds=None, crontab="0 3 * * *")
        own.update(last_scheduled_at=database_time() - 20 * HOUR)
        assert found(measures.waiting) == {}
        own.update(last_scheduled_at=database_time() - HOUR)
        assert found(measures.waiting) == {"assets": OLDEST}


class TestFailures:
    def test_many_of_a_short_time_are_noticed_and_one_cause_apart(self, assets: Queue) -> None:
        for offset in range(4):
            a_held(assets, offset, code="HTTP_REFUSED" if offset else "OTHER")
        MessageError.objects.update(first_failed_at=database_time(), last_failed_at=database_time())
        assert found(measures.failures) == {}
        a_rule(kind=FAILURES, at_least=4)
        a_rule(kind=FAILURES, code="HTTP_REFUSED", at_least=3)
        a_rule(kind=FAILURES, code="OTHER", at_least=2)
        assert found(measures.failures) == {"assets": FAILURES, "assets HTTP_REFUSED": FAILURES}
        MessageError.objects.filter(offset=3).update(first_failed_at=database_time() - 11 * MINUTE)
        assert found(measures.failures) == {}
        NoticeRule.objects.filter(code="").update(window_seconds=3_600)
        assert found(measures.failures) == {"assets": FAILURES}

    def test_the_notice_belongs_to_its_queue(self, assets: Queue) -> None:
        a_held(assets, code="X", first_failed_at=database_time(), last_failed_at=database_time())
        a_rule(kind=FAILURES, code="X", at_least=1)
        with connection.cursor() as cursor:
            [one] = measures.failures(cursor, rules.load())
        assert (one.subject, one.queue_name) == ("assets X", "assets")
        assert "1 message failed by X within 10 min." in one.text


class TestSchedules:
    @pytest.fixture
    def cleanup(self) -> CronInstance:
        CronInstance.objects.all().delete()
        return CronInstance.objects.create(
            name="Cleanup", task="errors_cleanup", crontab="17 * * * *"
        )

    def a_run(self, instance: CronInstance, state: str, ago: timedelta, **fields: Any) -> CronRun:
        at = database_time() - ago
        values = {"scheduled_at": at, "started_at": at, "ended_at": at, "text": "X: It broke."}
        CronInstance.objects.filter(pk=instance.pk).update(last_scheduled_at=at)
        return CronRun.objects.create(instance=instance, state=state, **{**values, **fields})

    @pytest.mark.parametrize("state", ["FAILED", "TIMED_OUT", "LOST"])
    def test_a_run_that_ended_badly_is_noticed(self, cleanup: CronInstance, state: str) -> None:
        self.a_run(cleanup, "DONE", HOUR)
        self.a_run(cleanup, state, MINUTE)
        assert found(schedules.failed) == {cleanup.name: "CRON_FAILED"}
        self.a_run(cleanup, "DONE", timedelta())
        assert found(schedules.failed) == {}

    def test_a_later_run_that_left_no_row_did_well(self, cleanup: CronInstance) -> None:
        run = self.a_run(cleanup, "FAILED", HOUR)
        own = CronInstance.objects.filter(pk=cleanup.pk)
        own.update(last_scheduled_at=database_time())
        assert found(schedules.failed), "its row may be just about to be written"
        own.update(last_scheduled_at=database_time() - MINUTE)
        assert found(schedules.failed) == {}
        CronRun.objects.create(instance=cleanup, started_at=run.started_at, state="RUNNING")
        assert found(schedules.failed), "it is still at work"

    def test_a_later_moment_that_was_acted_upon_before_the_run_says_nothing_of_it(
        self, cleanup: CronInstance
    ) -> None:
        self.a_run(cleanup, "FAILED", MINUTE, scheduled_at=database_time() - HOUR)
        CronInstance.objects.update(last_scheduled_at=database_time() - 2 * MINUTE)
        assert found(schedules.failed) == {cleanup.name: "CRON_FAILED"}
        CronInstance.objects.update(last_scheduled_at=database_time() - MINUTE / 2)
        assert found(schedules.failed) == {}

    def test_several_in_a_row_where_a_rule_asks_for_them(self, cleanup: CronInstance) -> None:
        a_rule(kind="CRON_FAILED", at_least=3)
        self.a_run(cleanup, "FAILED", 3 * HOUR)
        self.a_run(cleanup, "FAILED", 2 * HOUR)
        assert found(schedules.failed) == {}
        self.a_run(cleanup, "FAILED", HOUR)
        assert found(schedules.failed) == {cleanup.name: "CRON_FAILED"}

    def test_what_the_lag_monitor_found_has_notices_of_its_own(self, cleanup: CronInstance) -> None:
        CronInstance.objects.update(task="lag_monitor", parameters={})
        self.a_run(cleanup, "FAILED", MINUTE, text="", counts={"unreachable": 1})
        assert found(schedules.failed) == {}
        self.a_run(cleanup, "FAILED", timedelta(), text="KeyError: x")
        assert found(schedules.failed) == {cleanup.name: "CRON_FAILED"}

    def test_a_paused_schedule_tells_nobody(self, cleanup: CronInstance) -> None:
        self.a_run(cleanup, "FAILED", MINUTE)
        CronInstance.objects.update(active=False)
        assert found(schedules.failed) == {}

    def test_a_consumer_that_goes_on_failing_is_noticed_until_it_does_not(
        self, assets: Queue
    ) -> None:
        consumer = CronInstance.objects.get(queue=assets)
        long_ago = database_time() - HOUR
        report = EngineReport(counts={}, ending="FAILED", text="KeyError: x", drained=False)
        history.note_consumer(assets.pk, report, long_ago)
        CronRun.objects.update(ended_at=long_ago)
        assert found(schedules.failed) == {}
        history.note_consumer(assets.pk, report, database_time())
        assert CronRun.objects.count() == 1, "what is repeated has one row"
        with connection.cursor() as cursor:
            [one] = schedules.failed(cursor, rules.load())
        assert (one.kind, one.subject, one.queue_name) == ("CRON_FAILED", consumer.name, "assets")
        Queue.objects.update(paused=True)
        assert found(schedules.failed) == {}

    def late(self) -> set[str]:
        return {one.subject for one in schedules.late(rules.load(), database_time())}

    def test_a_moment_that_nobody_acted_upon_is_noticed(self, cleanup: CronInstance) -> None:
        own = CronInstance.objects.filter(pk=cleanup.pk)
        own.update(crontab="", interval_seconds=60, last_scheduled_at=database_time() - 4 * MINUTE)
        assert self.late() == set()
        own.update(last_scheduled_at=database_time() - 7 * MINUTE)
        assert self.late() == {cleanup.name}
        a_rule(kind="CRON_LATE", longer_than_seconds=3_600)
        assert self.late() == set()

    def test_a_schedule_that_stands_still_until_a_time_to_come_is_noticed(
        self, cleanup: CronInstance
    ) -> None:
        own = CronInstance.objects.filter(pk=cleanup.pk)
        own.update(last_scheduled_at=database_time() + MINUTE)
        assert self.late() == set()
        own.update(last_scheduled_at=database_time() + 60 * MINUTE)
        assert self.late() == {cleanup.name}

    def test_one_moment_that_the_rule_skips_is_not_late(self, cleanup: CronInstance) -> None:
        own = CronInstance.objects.filter(pk=cleanup.pk)
        own.update(crontab="", interval_seconds=600, misfire="skip")
        # Moments lie where the clock has them: the latest may be this very second's.
        latest = own.get().schedule().latest(database_time())
        own.update(last_scheduled_at=latest - 10 * MINUTE)
        assert self.late() == set()
        own.update(last_scheduled_at=latest - 30 * MINUTE)
        assert self.late() == {cleanup.name}

    @pytest.mark.usefixtures("valkey")
    def test_while_no_beat_lives_that_alone_is_said(self, cleanup: CronInstance) -> None:
        CronInstance.objects.update(last_scheduled_at=database_time() - DAY)
        kinds = {str(one.kind) for one in conditions.seen_by_workers(is_settled=True)}
        assert "NO_BEAT" in kinds
        assert "CRON_LATE" not in kinds
        now = database_time()
        Heartbeat.objects.create(kind="beat", node="b", pid=1, started_at=now, seen_at=now)
        kinds = {str(one.kind) for one in conditions.seen_by_workers(is_settled=True)}
        assert "CRON_LATE" in kinds

    def test_a_killed_run_does_not_keep_a_person_from_the_next(
        self, cleanup: CronInstance, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        sent: list[int] = []
        monkeypatch.setattr(ticks, "send", lambda instance, *_: sent.append(instance.pk))
        run = CronRun.objects.create(instance=cleanup, started_at=timezone.now(), state="RUNNING")
        session = raw_connection("a run")
        try:
            session.execute(locks.TRY, (locks.LockClass.INSTANCE, cleanup.pk))
            with pytest.raises(RunUnderWayError):
                actions.run_now(cleanup.pk, Author("otto"))
        finally:
            session.execute(locks.RELEASE_ALL)
            session.close()
        actions.run_now(cleanup.pk, Author("otto"))
        assert sent == [cleanup.pk]
        run.refresh_from_db()
        assert run.state == "LOST"


class TestPreview:
    def tried(self, **fields: Any) -> Preview:
        return preview(NoticeRule(name="new", **fields))

    def test_lag_is_tried_on_what_was_written_down(self, assets: Queue) -> None:
        now = database_time()
        for number in range(6):
            at = now - HOUR + number * 5 * MINUTE
            LagSample.objects.create(queue=None, at=at)
            if number != 3:
                LagSample.objects.create(queue=assets, at=at, lag=100, oldest_seconds=90)
        tried = self.tried(kind=LAG, at_least=100)
        assert (tried.times, tried.first) == (2, [("assets", 2)])
        assert (tried.is_whole, tried.since) == (False, now - HOUR)
        assert self.tried(kind=LAG, at_least=101).times == 0
        assert self.tried(kind=LAG, at_least=100, after_seconds=601).times == 1
        assert self.tried(kind=OLDEST, longer_than_seconds=60, queue=assets).times == 2
        assert self.tried(kind=OLDEST, system=assets.system, longer_than_seconds=90).times == 0
        assert "how many" in self.tried(kind=LAG).why_not
        LagSample.objects.update(at=F("at") - 8 * DAY)
        assert self.tried(kind=LAG, at_least=100).since is None

    def test_failures_are_tried_on_those_that_are_kept(self, assets: Queue) -> None:
        now = database_time()
        moments = [now - DAY, now - DAY, now - 3 * HOUR, now - 3 * HOUR, now - 9 * DAY]
        for offset, at in enumerate(moments):
            a_held(assets, offset, first_failed_at=at, last_failed_at=at, code="X")
        assert self.tried(kind=FAILURES, at_least=2, window_seconds=86_400).times in {1, 2}
        assert self.tried(kind=FAILURES, at_least=2).times == 2
        assert self.tried(kind="HOLD_BURST", at_least=2).times == 2
        assert self.tried(kind=FAILURES, at_least=2, code="Y").times == 0
        assert self.tried(kind=FAILURES, at_least=3).times == 0

    def test_other_kinds_are_tried_on_the_notices_that_there_were(self, assets: Queue) -> None:
        now = database_time()
        for length in (MINUTE, HOUR):
            Notice.objects.create(
                kind="BLOCKED",
                subject="assets[0]",
                queue=assets,
                opened_at=now - 2 * DAY,
                closed_at=now - 2 * DAY + length,
            )
        assert self.tried(kind="BLOCKED").times == 2
        assert self.tried(kind="BLOCKED", after_seconds=600).times == 1
        assert self.tried(kind="BLOCKED", queue=a_queue_row()).times == 0
        assert self.tried().why_not

    def test_what_waits_is_written_down_once_in_five_minutes(self, assets: Queue) -> None:
        a_place(a_queue_row("continuous"), next_offset=15)
        for _ in range(2):
            with connection.cursor() as cursor:
                lag_samples.write(cursor)
        # The five minutes may have turned in between.
        LagSample.objects.filter(at__gt=LagSample.objects.earliest("at").at).delete()
        none, one = LagSample.objects.order_by("queue_id").reverse()
        if none.queue_id is not None:
            none, one = one, none
        assert (none.queue_id, one.queue_id, one.lag) == (None, assets.pk, 50)
        assert one.oldest_seconds == pytest.approx(7_200, abs=60)
        LagSample.objects.update(at=F("at") - 9 * DAY)
        with connection.cursor() as cursor:
            lag_samples.write(cursor)
        assert LagSample.objects.filter(at__lt=database_time() - 8 * DAY).count() == 0
        assert QueuePartition.objects.count() == 2
