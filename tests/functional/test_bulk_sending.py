"""Who sends a bulk run to the Spark driver, when, and what becomes of one whose driver died."""

import json
import socketserver
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
import redis
from django.conf import settings
from django.db import connection, transaction
from django.utils import timezone

from crontasks import expiry
from crontasks.bulk import sending
from crontasks.bulk.deciding import again, cancel
from crontasks.dispatch.dispatcher import Dispatcher
from crontasks.health import live_processes
from crontasks.health.checks import check
from crontasks.hearts import Heart
from crontasks.models import Heartbeat
from integration.models import BulkRun, Deployment
from integration.store.sessions import database_now, django_connection
from tests.support.bulk import an_asset_structure, an_import
from tests.support.rows import a_queue_row
from tests.support.servers import celery_at, point_celery_at

pytestmark = [
    pytest.mark.servers,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("valkey"),
]
NOWHERE = "redis://127.0.0.1:1/0"


@pytest.fixture(autouse=True)
def broker(valkey: object) -> Iterator["redis.Redis[bytes]"]:
    """The Celery broker, empty."""
    with redis.Redis.from_url(settings.SLUICE_CELERY_BROKER_URL) as client:
        client.flushdb()
        yield client


@pytest.fixture
def away() -> Iterator[None]:
    """Nobody answers where the broker should be."""
    with celery_at(NOWHERE):
        yield


def a_run(**more: Any) -> BulkRun:
    an_asset_structure()
    return an_import(Path("/nowhere.csv"), a_queue_row(kind="continuous"), **more)


def a_driver(node: str = "spark@host:1", *, seconds_ago: float = 0) -> str:
    """An idle driver's heart."""
    with django_connection().cursor() as cursor:
        Heart(kind="worker", node=node, slots=1, queues="spark").beat(cursor, leads=False)
    Heartbeat.objects.filter(node=node).update(
        seen_at=timezone.now() - timedelta(seconds=seconds_ago)
    )
    return node


def look() -> list[Any]:
    with django_connection().cursor() as cursor:
        return sending.look(cursor)


def sent(broker: "redis.Redis[bytes]") -> list[str]:
    """The runs that wait in the driver's own queue of Celery, oldest first."""
    messages = [json.loads(raw) for raw in reversed(broker.lrange("spark", 0, -1))]
    assert all(one["headers"][expiry.HEADER] for one in messages)
    assert {one["headers"]["task"] for one in messages} <= {"crontasks.tasks.drive_run"}
    return [one["headers"]["argsrepr"].strip("(),'") for one in messages]


def left(run: BulkRun, *, seconds_ago: float = 1, **fields: Any) -> None:
    """As a driver left it that died: its lease has run out."""
    values = {
        "state": "RUNNING",
        "owner": "spark@gone:1",
        "lease_until": timezone.now() - timedelta(seconds=seconds_ago),
        **fields,
    }
    BulkRun.objects.filter(pk=run.pk).update(**values)


def test_a_run_is_sent_when_it_is_committed_and_not_before(broker: Any) -> None:
    with transaction.atomic():
        run = a_run(send=True)
        assert sent(broker) == []

    assert sent(broker) == [str(run.pk)]
    run.refresh_from_db()
    assert run.sent_at is not None


def test_what_is_rolled_back_is_not_sent(broker: Any) -> None:
    with transaction.atomic():
        a_run(send=True)
        transaction.set_rollback(True)
    assert sent(broker) == []


def test_a_run_that_is_driven_by_who_asked_is_sent_only_when_he_is_gone(broker: Any) -> None:
    a_driver()
    run = a_run()
    assert (look(), sent(broker)) == ([], [])

    BulkRun.objects.update(lease_until=timezone.now())

    assert look() == [run.pk]
    assert sent(broker) == [str(run.pk)]


def test_a_broker_that_is_down_loses_nothing(broker: Any, away: None) -> None:
    a_driver()
    run = a_run(send=True)
    run.refresh_from_db()
    assert (run.state, run.sent_at) == ("ASKED", None)
    assert look() == []

    point_celery_at(settings.SLUICE_CELERY_BROKER_URL)

    assert look() == [run.pk]


def test_a_broker_that_hangs_up_is_called_once_and_the_run_waits(broker: Any) -> None:
    """Whoever asks waits meanwhile; the dispatcher has the time to try again."""
    calls = []

    class Rude(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            calls.append(self.client_address)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Rude) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            with celery_at(f"redis://127.0.0.1:{server.server_address[1]}/0"):
                run = a_run(send=True)
        finally:
            server.shutdown()

    run.refresh_from_db()
    assert (run.state, run.sent_at) == ("ASKED", None)
    assert len(calls) == 1


def test_only_an_idle_driver_is_sent_a_run_and_the_same_again_after_ten_seconds() -> None:
    run = a_run(send=True)
    BulkRun.objects.update(sent_at=None)
    assert look() == [], "nobody is there"
    a_driver(seconds_ago=20)
    assert look() == [], "nobody lives"
    node = a_driver()
    assert look() == [run.pk]
    assert look() == []
    BulkRun.objects.update(sent_at=timezone.now() - timedelta(seconds=11))
    assert look() == [run.pk], "the Celery task got lost"

    BulkRun.objects.update(state="RUNNING", owner=node, lease_until="2999-01-01T00:00Z")
    other = an_import(Path("/other.csv"), a_queue_row(kind="continuous"), send=True)
    BulkRun.objects.filter(pk=other.pk).update(sent_at=None)
    assert look() == [], "the only driver is at work"
    a_driver("spark@other:2")
    assert look() == [other.pk]


def test_two_waiting_runs_go_to_one_driver_one_after_the_other() -> None:
    a_driver()
    first = a_run(send=True)
    second = an_import(Path("/other.csv"), a_queue_row(kind="continuous"), send=True)
    BulkRun.objects.update(sent_at=None)
    assert look() == [first.pk]
    assert look() == [second.pk]


def test_a_run_whose_driver_died_waits_again_and_after_three_deaths_no_more() -> None:
    run = a_run()
    for deaths in (1, 2):
        left(run)
        look()
        run.refresh_from_db()
        assert (run.state, run.deaths, run.owner, run.lease_until) == ("ASKED", deaths, "", None)
    left(run)
    epoch = run.epoch

    look()

    run.refresh_from_db()
    assert (run.state, run.deaths, run.epoch) == ("FAILED", 3, epoch + 1)
    assert run.problem[0] == "DRIVER_DIED"
    assert run.problem[2]
    assert run.ended_at is not None
    assert again(run.pk)
    run.refresh_from_db()
    assert (run.state, run.deaths, run.problem, run.ended_at) == ("ASKED", 0, None, None)


def test_what_was_applied_is_never_given_up() -> None:
    run = a_run()
    left(run, deaths=7, applied=True)
    look()
    run.refresh_from_db()
    assert (run.state, run.problem) == ("ASKED", None)


def test_a_living_driver_keeps_its_run() -> None:
    run = a_run()
    left(run, seconds_ago=-20)
    look()
    run.refresh_from_db()
    assert (run.state, run.deaths) == ("RUNNING", 0)


def test_a_look_waits_for_nobody(broker: Any) -> None:
    a_driver()
    held = a_run(send=True)
    left(held)
    free = an_import(Path("/other.csv"), a_queue_row(kind="continuous"), send=True)
    BulkRun.objects.update(sent_at=None)
    where = connection.settings_dict
    with psycopg.connect(
        host=where["HOST"], port=where["PORT"], user=where["USER"], dbname=where["NAME"]
    ) as other:
        other.execute("SELECT 1 FROM integration_bulkrun WHERE id = %s FOR UPDATE", [held.pk])
        with django_connection().cursor() as cursor:
            cursor.execute("SET lock_timeout = '1ms'")
            assert sending.look(cursor) == [free.pk]
            cursor.execute("RESET lock_timeout")
    held.refresh_from_db()
    assert held.state == "RUNNING"


def test_the_dispatcher_sends_what_waits_unless_the_database_is_anothers() -> None:
    a_driver()
    run = a_run(send=True)
    BulkRun.objects.update(sent_at=None)
    assert Deployment.objects.update(environment="another") == 1
    dispatcher = Dispatcher(Heart(kind="worker", node="worker@host:1", queues="celery"))
    try:
        dispatcher.round()
        run.refresh_from_db()
        assert run.sent_at is None
        Deployment.objects.update(environment=settings.SLUICE_ENVIRONMENT)
        dispatcher.round()
    finally:
        dispatcher.leadership.resign()
    run.refresh_from_db()
    assert run.sent_at is not None


def test_a_run_that_never_began_is_cancelled_at_once_and_another_by_its_driver() -> None:
    run = a_run(send=True)
    assert cancel(run.pk)
    run.refresh_from_db()
    assert run.state == "CANCELLED"
    assert run.ended_at is not None
    assert not cancel(run.pk)

    assert again(run.pk)
    BulkRun.objects.update(epoch=1)
    assert cancel(run.pk)
    run.refresh_from_db()
    assert (run.state, run.cancel_asked_at is None) == ("ASKED", False)


def test_the_doctor_misses_a_driver_only_when_a_run_waits() -> None:
    assert check("spark", live_processes.spark()).ok
    a_run(send=True)
    found = check("spark", live_processes.spark())
    assert not found.ok
    assert found.why.startswith("1 bulk run ")
    assert "run_spark_driver" in found.next_step
    a_driver()
    assert check("spark", live_processes.spark()).ok


def test_what_a_command_has_just_asked_for_itself_waits_for_nobody() -> None:
    a_run()
    assert check("spark", live_processes.spark()).ok
    BulkRun.objects.update(lease_until=database_now())
    assert not check("spark", live_processes.spark()).ok
