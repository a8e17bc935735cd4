"""A person's "Run now": it runs, or its row says why not."""

from datetime import timedelta

import pytest

from crontasks import tasks, ticks
from crontasks.models import CronInstance, CronRun
from crontasks.running import history
from crontasks.ticks import RunRequest
from integration.store import locks
from integration.store.sessions import database_time
from tests.functional.test_crontasks import an_instance, later

pytestmark = [pytest.mark.servers, pytest.mark.django_db]
ASKED = RunRequest("ada")


def test_one_that_meets_a_run_at_work_leaves_a_row_behind_it(other_session):
    instance = an_instance()
    at_work = history.begin(instance, ticks.Context(instance_id=instance.pk, scheduled_at=later(0)))
    other_session.execute(locks.TRY, (locks.LockClass.INSTANCE, instance.pk))
    assert ticks.tick(instance.pk, later(10), ASKED).is_empty
    assert ticks.tick(instance.pk, later(20)).is_empty
    latest, behind = instance.runs.all()
    assert latest == at_work
    assert (behind.state, behind.ended_at is None) == ("FAILED", False)
    assert "ada" in behind.log_excerpt


def test_one_is_newer_than_a_moment_that_a_clock_ahead_has_named(monkeypatch):
    instance = an_instance()
    ahead = database_time() + timedelta(seconds=3)
    CronInstance.objects.filter(pk=instance.pk).update(last_scheduled_at=ahead)

    def send_task(name: str, arguments: tuple[object, ...], **_: object) -> None:
        tasks.tick.apply(arguments)

    monkeypatch.setattr(ticks.app, "send_task", send_task)
    ticks.run_now(instance, ASKED)
    run = CronRun.objects.get(instance=instance)
    assert run.counts == {"ran": 1}
    assert run.scheduled_at > ahead
