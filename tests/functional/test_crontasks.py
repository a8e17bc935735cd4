"""Instances, ticks and runs on a real database; nothing is sent to a worker."""

from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from django.core.exceptions import ValidationError
from django.db import DataError, OperationalError, connection
from django.db.models import F
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from django_celery_beat.models import PeriodicTask, PeriodicTasks

from config.celery import app
from crontasks import tasks, ticks
from crontasks.beat import InstanceEntry, LeaderScheduler
from crontasks.models import CronInstance, CronRun
from crontasks.outcome import Context, Outcome, RunState
from crontasks.running import history, outage, serving
from integration.models import Deployment, EventSubscription, PendingEvent, Provider, Queue
from integration.store import locks
from integration.store.sessions import Session, database_now
from tests.functional.test_dispatcher_processes import flush_broker
from tests.support.channels import a_channel

pytestmark = [pytest.mark.servers, pytest.mark.django_db]


def an_instance(**fields) -> CronInstance:
    return CronInstance.objects.create(
        **({"name": "trace", "task": "trace", "interval_seconds": 10} | fields)
    )


def a_queue(name: str = "assets", **fields) -> Queue:
    provider, _ = Provider.objects.get_or_create(
        name="main", defaults={"bootstrap_servers": "127.0.0.1:1"}
    )
    defaults = {"kind": "continuous", "start_from": "beginning", "topic": name}
    return Queue.objects.create(name=name, provider=provider, **(defaults | fields))


def later(seconds: float) -> datetime:
    return timezone.now() + timedelta(seconds=seconds)


def test_a_queue_with_its_schedule_is_stored_by_few_statements():
    a_queue("first")
    with CaptureQueriesContext(connection) as asked:
        a_queue("second")
    assert len(asked) <= 13


def test_a_saved_instance_owns_a_periodic_task_that_follows_it():
    instance = an_instance()
    owned = instance.periodic_task
    assert (owned.task, owned.args) == ("crontasks.tasks.tick", f"[{instance.pk}]")
    assert owned.interval.every == 10
    assert owned.enabled

    changed = PeriodicTasks.last_change()
    instance.interval_seconds, instance.crontab, instance.active = (
        None,
        " 30 2  * * mon-fri ",
        False,
    )
    instance.time_zone = "Europe/Berlin"
    instance.save()
    owned.refresh_from_db()
    assert owned.interval is None
    assert (owned.crontab.minute, owned.crontab.day_of_week) == ("30", "1,2,3,4,5")
    assert str(owned.crontab.timezone) == "Europe/Berlin"
    assert not owned.enabled
    assert instance.crontab == "30 2 * * mon-fri"
    assert PeriodicTasks.last_change() > changed

    instance.delete()
    assert not PeriodicTask.objects.filter(pk=owned.pk).exists()


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"interval_seconds": None, "crontab": "1--100000000 * * * *"}, "crontab"),
        ({"interval_seconds": None, "crontab": ""}, "interval_seconds"),
        ({"crontab": "* * * * *"}, "crontab"),
        ({"time_zone": "Nowhere", "interval_seconds": None, "crontab": "* * * * *"}, "crontab"),
        ({"task": "nonsense"}, "task"),
        ({"parameters": {"seconds": -1}}, "parameters"),
        ({"parameters": []}, "parameters"),
        ({"timeout_seconds": 0}, "timeout_seconds"),
    ],
)
def test_nothing_invalid_is_saved(fields, field):
    with pytest.raises(ValidationError) as refused:
        an_instance(**fields)
    assert field in refused.value.message_dict
    assert not CronInstance.objects.filter(name="trace").exists()


def test_a_moment_is_acted_upon_once_and_an_older_one_never():
    instance = an_instance()
    moment = later(10)
    assert ticks.tick(instance.pk, moment).counts == {"ran": 1}
    assert ticks.tick(instance.pk, moment).is_empty
    assert ticks.tick(instance.pk, moment - timedelta(seconds=10)).is_empty
    run = CronRun.objects.get(instance=instance)
    assert (run.state, run.counts, run.scheduled_at) == ("DONE", {"ran": 1}, moment)
    assert "cron task" in run.log_excerpt
    assert run.duration_seconds is not None


def test_a_save_never_puts_the_last_moment_back():
    instance = an_instance()
    stale = CronInstance.objects.get(pk=instance.pk)
    moment = later(20)
    ticks.tick(instance.pk, moment)
    stale.keep_runs = 5
    stale.save()
    assert CronInstance.objects.get(pk=instance.pk).last_scheduled_at == moment


def test_an_empty_tick_writes_no_row_and_a_failing_one_says_why():
    empty = an_instance(name="empty", parameters={"empty": True})
    ticks.tick(empty.pk, later(10))
    assert not CronRun.objects.filter(instance=empty).exists()

    failing = an_instance(name="failing", parameters={"fails": True})
    ticks.tick(failing.pk, later(10))
    run = CronRun.objects.get(instance=failing)
    assert (run.state, run.text) == ("FAILED", "RuntimeError: asked to fail")


def test_a_run_is_skipped_while_the_one_before_works_unless_both_may(other_session):
    busy = an_instance()
    key = (locks.LockClass.INSTANCE, busy.pk)
    other_session.execute(locks.TRY, key)
    assert ticks.tick(busy.pk, later(10)).is_empty
    other_session.execute(locks.RELEASE, key)
    assert ticks.tick(busy.pk, later(20)).counts == {"ran": 1}

    CronInstance.objects.filter(pk=busy.pk).update(overlap="allow")
    other_session.execute(locks.TRY_SHARED, key)
    assert ticks.tick(busy.pk, later(30)).counts == {"ran": 1}


def test_a_moment_whose_run_cannot_begin_is_tried_again_and_runs_once(monkeypatch):
    instance, moment = an_instance(), later(10)
    before, connect, tried = instance.last_scheduled_at, ticks.raw_connection, []

    def is_full_at_first(name: str) -> Session:
        tried.append(CronInstance.objects.get(pk=instance.pk).last_scheduled_at)
        if len(tried) < 3:
            raise psycopg.errors.TooManyConnections("sorry, too many clients already")
        return connect(name)

    monkeypatch.setattr(ticks, "raw_connection", is_full_at_first)
    tasks.tick.apply((instance.pk, moment.isoformat()))
    assert tried == [before] * 3, "it does not count as acted upon before its run is seen"
    assert CronInstance.objects.get(pk=instance.pk).last_scheduled_at == moment
    assert CronRun.objects.get(instance=instance).counts == {"ran": 1}


def test_a_moment_counts_as_acted_upon_together_with_the_row_of_its_run(monkeypatch):
    instance = an_instance()
    monkeypatch.setattr(history, "node", lambda: "longer than its column" * 100)
    with pytest.raises(DataError):
        ticks.tick(instance.pk, later(10))
    again = CronInstance.objects.get(pk=instance.pk)
    assert again.last_scheduled_at == instance.last_scheduled_at


def test_a_run_whose_process_died_is_marked_lost(other_session):
    instance = an_instance()
    run = history.begin(instance, Context(instance_id=instance.pk, scheduled_at=later(0)))
    assert history.mark_lost() == 0, "it has just begun"
    CronRun.objects.filter(pk=run.pk).update(started_at=later(-120))
    other_session.execute(locks.TRY, (locks.LockClass.INSTANCE, instance.pk))
    assert history.mark_lost() == 0, "its lock is held"
    other_session.execute(locks.RELEASE, (locks.LockClass.INSTANCE, instance.pk))
    assert history.mark_lost() == 1
    run.refresh_from_db()
    assert run.state == RunState.LOST


def test_a_copy_of_another_environment_acts_on_nothing():
    instance = an_instance()
    Deployment.objects.update(environment="production")
    assert ticks.tick(instance.pk, later(10)) == Outcome()
    assert not CronRun.objects.exists()


def test_an_inbound_queue_gets_one_consumer_that_follows_its_kind():
    queue = a_queue()
    instance = queue.instances.get()
    assert (instance.task, instance.interval_seconds, instance.active) == (
        "queue_consumer",
        10,
        True,
    )
    queue.kind, queue.is_error_queue = "sequential", True
    queue.save()
    assert queue.instances.get().task == "error_queue_consumer"
    assert not a_queue("out", direction="outbound").instances.exists()
    owned = instance.periodic_task_id
    queue.delete()
    assert not PeriodicTask.objects.filter(pk=owned).exists()


def entry(instance: CronInstance) -> InstanceEntry:
    model = PeriodicTask.objects.select_related("instance").get(instance=instance)
    return InstanceEntry(model)


def test_beat_names_the_moment_and_a_second_beat_the_same_one():
    instance = an_instance(interval_seconds=3_600)
    assert entry(instance).due_moment(timezone.now()) is None
    now = later(3_600)
    moments = {entry(instance).due_moment(now), entry(instance).due_moment(now)}
    assert moments == {instance.schedule().latest(now)}


@pytest.mark.django_db(transaction=True)
def test_beat_misses_no_instance_that_is_made_while_it_reads():
    PeriodicTasks.objects.all().delete()
    beat = LeaderScheduler(app)
    known = len(beat.schedule)
    an_instance()
    assert len(beat.schedule) == known + 1
    # Of two that are saved at once, the earlier may be the one that is committed last.
    an_instance(name="other")
    PeriodicTasks.objects.update(last_update=F("last_update") - timedelta(seconds=1))
    assert len(beat.schedule) == known + 2


def test_beat_leaves_queues_alone_that_a_message_starts(monkeypatch):
    queue = a_queue()
    instance = queue.instances.get()
    assert not entry(instance).is_watched
    monkeypatch.setattr(InstanceEntry, "watched", frozenset({queue.provider_id}))
    assert entry(instance).is_watched
    CronInstance.objects.update(last_scheduled_at=later(-7_200))
    assert not entry(instance).is_due().is_due
    # A longer interval is a person's wish.
    CronInstance.objects.filter(pk=instance.pk).update(interval_seconds=3_600)
    assert entry(instance).is_due().is_due


def test_beat_sends_no_tick_while_there_is_no_work(valkey, child_environment):
    beat = LeaderScheduler(app)
    instance = an_instance(task="events", interval_seconds=5)
    CronInstance.objects.update(last_scheduled_at=later(-60))

    def acted() -> tuple[bool, bool]:
        before = instance.last_scheduled_at
        beat.apply_async(entry(instance))
        instance.refresh_from_db()
        return instance.last_scheduled_at != before, instance.asked_at is not None

    instance.refresh_from_db()
    assert acted() == (True, False), "the moment passed, and nothing is late"
    # What a subscription that is off has to lose is work as well.
    subscription = EventSubscription.objects.create(
        channel=a_channel("QUIET", "quiet", envelope=False), name="quiet", enabled=False
    )
    PendingEvent.objects.create(
        subscription=subscription, kind="QUEUE_BLOCKED", at=later(0), subject={}
    )
    CronInstance.objects.update(last_scheduled_at=later(-60))
    instance.refresh_from_db()
    assert acted() == (False, True)
    flush_broker(child_environment)


def test_a_run_that_was_asked_for_is_not_passed_over():
    instance = an_instance(task="events", interval_seconds=5)
    asked, moment = later(10), later(20)
    CronInstance.objects.update(asked_at=asked)
    assert not ticks.pass_over(instance.pk, moment)
    assert ticks.claim(instance.pk, asked) is not None
    assert ticks.pass_over(instance.pk, moment), "the run that was asked for has begun"
    assert ticks.claim(instance.pk, moment) is None


def test_a_tick_that_has_begun_before_its_sender_went_on_is_no_longer_on_its_way(
    valkey, child_environment
):
    instance, moment = an_instance(task="events", interval_seconds=5), later(10)
    assert ticks.claim(instance.pk, moment) is not None
    ticks.send(instance, moment)
    instance.refresh_from_db()
    assert instance.asked_at is None
    ticks.send(instance, later(20))
    instance.refresh_from_db()
    assert instance.asked_at is not None
    flush_broker(child_environment)


def test_a_moment_missed_for_long_runs_once_late_or_not_at_all():
    instance = an_instance(interval_seconds=None, crontab="* * * * *")
    now = later(86_400).replace(second=0, microsecond=0)
    assert entry(instance).due_moment(now) == now

    hourly = an_instance(name="hourly", interval_seconds=None, crontab="0 * * * *")
    half_past = later(86_400).replace(minute=30)
    missed = half_past.replace(minute=0, second=0, microsecond=0)
    assert entry(hourly).due_moment(half_past) == missed
    CronInstance.objects.filter(pk=hourly.pk).update(misfire="skip")
    assert entry(hourly).due_moment(half_past) is None
    assert entry(hourly).due_moment(missed + timedelta(seconds=5)) == missed


def test_an_instance_switched_on_again_does_not_catch_up():
    instance = an_instance(interval_seconds=None, crontab="* * * * *", active=False)
    CronInstance.objects.filter(pk=instance.pk).update(
        last_scheduled_at=datetime(2020, 1, 1, tzinfo=UTC)
    )
    instance.active = True
    instance.save()
    instance.refresh_from_db()
    assert entry(instance).due_moment(instance.last_scheduled_at) is None


def report(ending: str, **counts: int) -> serving.Broken:
    return serving.Broken("", ending, counts)


def test_turns_that_gave_way_are_told_as_one_run_and_empty_runs_are_not_told():
    queue = a_queue()
    for ending, counts in [
        ("YIELDED", {"APPLIED": 5}),
        ("YIELDED", {}),
        ("DRAINED", {"APPLIED": 2, "HOLD": 1}),
        ("DRAINED", {}),
        ("DRAINED", {"APPLIED": 1}),
    ]:
        history.note_consumer(queue.pk, report(ending, **counts), timezone.now())
    runs = CronRun.objects.filter(instance__queue=queue).order_by("id")
    assert [(run.ending, run.counts) for run in runs] == [
        ("DRAINED", {"APPLIED": 7, "HOLD": 1}),
        ("DRAINED", {"APPLIED": 1}),
    ]


def test_a_blocked_queue_is_told_once_and_not_at_every_tick():
    queue = a_queue()
    for _ in range(3):
        history.note_consumer(queue.pk, report("BLOCKED"), timezone.now())
    history.note_consumer(queue.pk, report("OUTAGE"), timezone.now())
    endings = CronRun.objects.order_by("id").values_list("ending", flat=True)
    assert list(endings) == ["BLOCKED", "OUTAGE"]


def test_an_engine_that_breaks_is_told_on_the_run(monkeypatch, settings):
    settings.SLUICE_ENGINE = "tests.functional.test_crontasks.broken_engine"
    queue = a_queue()
    serving.serve_queue(queue.pk)
    run = CronRun.objects.get(instance__queue=queue)
    assert (run.state, run.ending, run.text) == ("FAILED", "FAILED", "ValueError: no such engine")


@pytest.mark.parametrize(
    ("drained", "watched", "follows"),
    [(True, True, False), (True, False, True), (False, True, True)],
)
def test_an_idle_queue_that_gives_way_is_left_to_the_watch(
    monkeypatch, settings, valkey, child_environment, drained, watched, follows
):
    queue = a_queue()
    if watched:
        Provider.objects.update(idle_watched_at=database_now())
    settings.SLUICE_ENGINE = "tests.functional.test_crontasks.yielding_engine"
    monkeypatch.setattr(yielding_engine, "drained", drained, raising=False)
    serving.serve_queue(queue.pk)
    flush_broker(child_environment)
    assert (CronInstance.objects.get(queue=queue).asked_at is not None) is follows


def yielding_engine(queue_id: int, *, stop: object) -> serving.Broken:
    return serving.Broken("", "YIELDED", {}, yielding_engine.drained)


def broken_engine(queue_id: int, *, stop: object) -> None:
    raise ValueError("no such engine")


@pytest.mark.parametrize(
    ("error", "is_outage"),
    [
        (psycopg.OperationalError("the connection is closed"), True),
        (psycopg.errors.AdminShutdown("terminating connection"), True),
        (psycopg.errors.DeadlockDetected("deadlock detected"), False),
        (psycopg.errors.LockNotAvailable("lock timeout"), False),
        (ConnectionRefusedError("another server"), False),
    ],
)
def test_only_a_database_that_is_away_ends_a_celery_task_quietly(error, is_outage):
    wrapped = OperationalError(str(error))
    wrapped.__cause__ = error
    assert outage.is_of_database(wrapped) is is_outage
