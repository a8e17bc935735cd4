"""Beat's clock: whatever its host's says, moments are those of the database's."""

from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest
from django.utils import timezone

from config.celery import app
from crontasks import hearts
from crontasks.beat import LeaderScheduler
from crontasks.models import CronInstance
from integration.store.sessions import database_now, database_time
from tests.functional.test_crontasks import an_instance
from tests.support.celery_world import eventually

pytestmark = [pytest.mark.servers, pytest.mark.django_db(transaction=True)]

SECOND = timedelta(seconds=1)
HOUR = timedelta(hours=1)


@pytest.fixture
def idle() -> CronInstance:
    """The only schedule: a task without any work, whose moments pass without a run."""
    CronInstance.objects.all().delete()
    return an_instance(name="events", task="events", interval_seconds=1)


@pytest.fixture
def beat() -> Iterator[LeaderScheduler]:
    scheduler = LeaderScheduler(app)
    yield scheduler
    scheduler.leadership.resign()
    scheduler._finalize.cancel()


def moment(instance: CronInstance) -> datetime:
    found = CronInstance.objects.get(pk=instance.pk).last_scheduled_at
    assert found is not None
    return found


def ticks_until_newer(beat: LeaderScheduler, instance: CronInstance, than: datetime) -> datetime:
    def newer() -> datetime | None:
        beat.tick()
        return moment(instance) if moment(instance) > than else None

    found = eventually(newer)
    assert found is not None
    return found


@pytest.mark.parametrize("wrong", [HOUR, -HOUR], ids=["ahead", "behind"])
def test_moments_are_named_by_the_databases_clock(
    idle: CronInstance,
    beat: LeaderScheduler,
    monkeypatch: pytest.MonkeyPatch,
    wrong: timedelta,
) -> None:
    real = timezone.now
    monkeypatch.setattr(timezone, "now", lambda: real() + wrong)
    before = database_time() - 30 * SECOND
    CronInstance.objects.update(last_scheduled_at=before)
    named = ticks_until_newer(beat, idle, before)
    assert abs(named - database_time()) < 60 * SECOND


def test_an_instance_counts_from_now_by_the_databases_clock(
    idle: CronInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = timezone.now
    monkeypatch.setattr(timezone, "now", lambda: real() + HOUR)
    idle.interval_seconds = 2
    idle.save()
    assert abs(moment(idle) - database_time()) < 60 * SECOND


@pytest.mark.parametrize("leads_already", [False, True])
def test_a_schedule_whose_last_moment_lies_ahead_goes_on(
    idle: CronInstance, beat: LeaderScheduler, *, leads_already: bool
) -> None:
    """As one left it whose clock was wrong; or a tick of its that a worker takes only now."""
    if leads_already:
        beat.tick()
        beat.looked_at = float("-inf")
    CronInstance.objects.update(last_scheduled_at=database_now() + HOUR)
    beat.tick()
    assert abs(moment(idle) - database_time()) < 60 * SECOND
    ticks_until_newer(beat, idle, moment(idle))


def test_the_databases_clock_goes_on_whatever_is_done_to_the_hosts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = hearts.DatabaseClock()
    assert abs(clock.now() - timezone.now()) < 60 * SECOND
    told = timezone.now() - 7 * HOUR
    clock.tell(told)
    real = hearts.time.time
    monkeypatch.setattr(hearts.time, "time", lambda: real() + 3_600)
    assert told <= clock.now() < told + 5 * SECOND
