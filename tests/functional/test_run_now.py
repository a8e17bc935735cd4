"""A person's "Run now": it runs, or its row says why not."""

import time
from datetime import timedelta

import pytest

from crontasks import tasks, ticks
from crontasks.models import CronInstance, CronRun
from crontasks.running import history
from crontasks.ticks import RunRequest
from integration.store import locks
from integration.store.sessions import database_time, raw_connection
from tests.functional.test_crontasks import a_queue, an_instance, later
from tests.support.celery_world import eventually
from tests.support.operator_api import a_program
from tests.support.servers import celery_at

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


def test_a_run_that_stands_still_past_its_time_limit_lets_the_next_one_begin(
    other_session, monkeypatch
):
    """Its worker would have ended it, and stands still as well: nobody else gives the lock back."""
    instance = an_instance(timeout_seconds=1)
    at_work = history.begin(instance, ticks.Context(instance_id=instance.pk, scheduled_at=later(0)))
    CronRun.objects.filter(pk=at_work.pk).update(started_at=later(-120))
    other_session.execute(locks.TRY, (locks.LockClass.INSTANCE, instance.pk))
    time.sleep(1.1)
    assert history.mark_lost() == 0, "its worker may be about to end it"
    monkeypatch.setattr(history, "_OVERDUE_SECONDS", 0)
    eventually(history.mark_lost)
    assert not ticks.tick(instance.pk, later(10)).is_empty
    at_work.refresh_from_db()
    assert at_work.state == "LOST"


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


def test_one_that_a_later_moment_overtook_runs_once():
    instance, asked_for, scheduled = an_instance(), later(10), later(20)
    assert ticks.claim(instance.pk, scheduled) is not None
    for _ in range(2):
        ticks.tick(instance.pk, asked_for, ASKED)
    run = CronRun.objects.get(instance=instance)
    assert (run.counts, run.scheduled_at) == ({"ran": 1}, asked_for)
    instance.refresh_from_db()
    assert instance.last_scheduled_at == scheduled


class Sent:
    """What is sent to the broker, and whether others saw it committed by then."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, seen: str) -> None:
        self.seen: list[bool] = []

        def send_task(*_: object, **__: object) -> None:
            with raw_connection("a worker") as session:
                row = session.execute(seen).fetchone()
            self.seen.append(bool(row and row[0]))

        monkeypatch.setattr(ticks.app, "send_task", send_task)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("headers", [{}, {"Idempotency_Key": "k"}], ids=["plain", "with a key"])
def test_a_run_of_a_queue_is_sent_once_its_request_is_committed(monkeypatch, headers):
    queue = a_queue()
    request = "SELECT start_requested_at IS NOT NULL FROM integration_queue"
    sent = Sent(monkeypatch, request)
    answer = a_program().post(f"/cron/{queue.instances.get().pk}/runs", **headers)
    assert answer.status_code == 202
    assert sent.seen == [True], "a worker that takes it finds a request"


@pytest.mark.django_db(transaction=True)
def test_a_run_that_the_broker_did_not_take_may_be_asked_for_under_the_same_key(monkeypatch):
    path, program = f"/cron/{an_instance().pk}/runs", a_program()
    with celery_at("redis://127.0.0.1:1/0"):
        answer = program.post(path, Idempotency_Key="k")
    assert (answer.status_code, answer.json()["code"]) == (503, "WORKERS_UNREACHABLE")
    sent = Sent(monkeypatch, "SELECT true")
    assert program.post(path, Idempotency_Key="k").status_code == 202
    assert sent.seen == [True]
