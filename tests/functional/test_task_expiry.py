"""Celery tasks that waited too long for a worker, by the database's clock."""

import json
from datetime import timedelta

import pytest
import redis
from django.conf import settings
from django.utils import timezone

from crontasks import tasks, ticks
from crontasks.expiry import HEADER, expires_in
from crontasks.models import CronInstance
from tests.functional.test_dispatcher_processes import flush_broker

pytestmark = [pytest.mark.servers, pytest.mark.django_db]


@pytest.fixture
def instance() -> CronInstance:
    return CronInstance.objects.create(name="events", task="events", interval_seconds=5)


@pytest.mark.parametrize(("seconds", "is_run"), [(60, True), (-1, False)])
def test_a_tick_that_waited_too_long_is_nothing(instance, seconds, is_run):
    moment = timezone.now() + timedelta(seconds=5)
    headers = expires_in(seconds)
    tasks.tick.apply((instance.pk, moment.isoformat()), headers=headers, throw=True)
    instance.refresh_from_db()
    assert (instance.last_scheduled_at == moment) is is_run


def test_no_clock_of_a_worker_judges_a_tick(instance, valkey, child_environment):
    """One an hour ahead threw away all that came to it."""
    flush_broker(child_environment)
    ticks.send(instance, timezone.now() + timedelta(seconds=5))
    with redis.Redis.from_url(settings.SLUICE_CELERY_BROKER_URL) as broker:
        waiting = [json.loads(raw)["headers"] for raw in broker.lrange("celery", 0, -1)]
    [sent] = [one for one in waiting if one["argsrepr"].startswith(f"({instance.pk}, ")]
    assert sent["expires"] is None
    assert sent[HEADER] > timezone.now().isoformat()
    flush_broker(child_environment)
