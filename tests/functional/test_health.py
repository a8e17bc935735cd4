"""/healthz asks nobody; /readyz tells whether there is progress, in counts and without names."""

from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.db import DatabaseError
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from console.monitoring.health import standing
from crontasks.models import Heartbeat
from integration.models import (
    BulkRun,
    Deployment,
    PartitionLease,
    Queue,
    QueueChange,
    RelayLease,
)
from tests.support.rows import (
    a_blocked_queue,
    a_message_to_send,
    a_place,
    a_queue_row,
    some_live_processes,
)
from tests.support.servers import celery_at

pytestmark = [pytest.mark.servers, pytest.mark.django_db]

LONG_AGO = timedelta(minutes=20)
JUST_NOW = timedelta(0)
NAMES = (
    "database",
    "migrations",
    "environment",
    "worker",
    "beat",
    "relay",
    "spark",
    "slots",
    "progress",
    "broker",
)


@pytest.fixture(autouse=True)
def broker(valkey: object) -> None:
    """The Celery broker runs, and nothing of an earlier test is told."""
    standing.forget()


def asked(client: Client | None = None) -> tuple[int, dict[str, dict[str, str]]]:
    """What a look of this moment tells."""
    standing.forget()
    answer = (client or Client()).get("/readyz")
    told: dict[str, Any] = answer.json()
    assert told["status"] == ("ok" if answer.status_code == 200 else "failing")
    return answer.status_code, {check["name"]: check for check in told["checks"]}


def failing(checks: dict[str, dict[str, str]]) -> list[str]:
    return [name for name, check in checks.items() if check["state"] == "failing"]


def a_waiting_queue(**place: Any) -> Queue:
    """Five messages wait, and the last progress was long ago."""
    queue = a_queue_row(kind="continuous")
    old = timezone.now() - LONG_AGO
    values = {"progressed_at": old, "oldest_waiting_at": old, "state_since": old, **place}
    a_place(queue, **values)
    Queue.objects.filter(pk=queue.pk).update(changed_at=old)
    return queue


def an_owner(queue: Queue, **lease: Any) -> None:
    now = timezone.now()
    values = {
        "partition": queue.partitions.get(),
        "owner": "worker@host/1",
        "epoch": 3,
        "lock_pid": 1,
        "lock_backend_start": now,
        "lease_until": now + timedelta(minutes=5),
        "taken_at": now,
        **lease,
    }
    PartitionLease.objects.create(**values)


def test_the_process_answers_without_the_database(
    client: Client, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    with django_assert_num_queries(0):
        answer = client.get("/healthz", headers={"host": "10.0.0.7:8000"})

    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})
    assert client.post("/healthz").status_code == 405


def test_everything_alive_is_ready_and_costs_little(
    django_assert_max_num_queries: DjangoAssertNumQueries,
) -> None:
    some_live_processes()
    asked()  # the code's own migrations are read from disk once a process
    # Of them two are the savepoint of the test's own transaction.
    with django_assert_max_num_queries(12):
        status, checks = asked()

    assert (status, tuple(checks)) == (200, NAMES)
    assert not failing(checks)
    assert all(check["why"] for check in checks.values())


def test_asking_again_at_once_costs_nothing(
    client: Client, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    some_live_processes()
    first = client.get("/readyz")

    with django_assert_num_queries(0):
        again = client.get("/readyz")

    assert (again.status_code, again.json()) == (first.status_code, first.json())


def test_whoever_asks_by_address_and_without_tls_is_answered(settings: Any) -> None:
    settings.SECURE_SSL_REDIRECT = True
    some_live_processes()

    assert Client().get("/readyz", headers={"host": "10.0.0.7"}).status_code == 200
    assert Client().get("/", headers={"host": "10.0.0.7"}).status_code == 400


@pytest.mark.parametrize(
    ("kind", "queues", "check"),
    [("worker", "celery", "worker"), ("worker", "relay", "relay"), ("beat", "", "beat")],
)
def test_a_dead_process_is_named_with_what_to_start(kind: str, queues: str, check: str) -> None:
    some_live_processes()
    hearts = Heartbeat.objects.filter(kind=kind, queues=queues)
    assert hearts.update(seen_at=timezone.now() - timedelta(seconds=30)) == 1

    status, checks = asked()

    assert (status, failing(checks)) == (503, [check])
    assert "celery -A config" in checks[check]["next_step"]


def test_messages_that_wait_without_progress_are_ill_health() -> None:
    some_live_processes()
    queue = a_waiting_queue()

    status, checks = asked()

    assert (status, failing(checks)) == (503, ["progress"])
    assert checks["progress"]["why"].startswith("1 queue ")
    assert queue.name not in str(checks)


@pytest.mark.parametrize(
    "place",
    [
        {"high_watermark": 10},
        {"high_watermark": None},
        {"progressed_at": JUST_NOW},
        {"oldest_waiting_at": JUST_NOW},
        {"state": "BACKOFF", "resume_at": LONG_AGO},
    ],
    ids=["nothing waits", "nothing known", "progress", "just arrived", "waits for its time"],
)
def test_a_queue_that_is_not_late_is_healthy(place: dict[str, Any]) -> None:
    some_live_processes()
    # Times count from the test itself: it may begin long after it was collected.
    now = timezone.now()
    a_waiting_queue(**{k: now + v if isinstance(v, timedelta) else v for k, v in place.items()})

    assert asked()[0] == 200


def test_a_queue_nobody_wants_to_run_is_healthy() -> None:
    some_live_processes()
    queue = a_waiting_queue()
    Queue.objects.filter(pk=queue.pk).update(paused=True)
    assert asked()[0] == 200
    Queue.objects.filter(pk=queue.pk).update(paused=False)
    assert asked()[0] == 503
    now = timezone.now()
    QueueChange.objects.create(queue=queue, at=now, actor="anna", action="resume")

    assert asked()[0] == 200, "who was resumed a moment ago gets time to begin"
    QueueChange.objects.all().delete()
    assert asked()[0] == 503
    queue.save()

    assert asked()[0] == 200, "and so does who was set up anew"


def test_an_owner_at_work_gets_longer_but_not_for_ever() -> None:
    some_live_processes()
    old = timezone.now() - timedelta(minutes=10)
    queue = a_waiting_queue(progressed_at=old, oldest_waiting_at=old, state_since=old)
    assert asked()[0] == 503
    an_owner(queue)
    assert asked()[0] == 200
    queue.partitions.update(progressed_at=old - LONG_AGO, oldest_waiting_at=old - LONG_AGO)
    queue.partitions.update(state_since=old - LONG_AGO)

    assert asked()[0] == 503


def test_a_message_dated_in_the_future_hides_nothing() -> None:
    some_live_processes()
    a_waiting_queue(oldest_waiting_at=timezone.now() + timedelta(days=400))

    assert asked()[0] == 503


def test_what_waits_for_a_person_is_told_and_is_not_ill_health() -> None:
    some_live_processes()
    queue, _, _ = a_blocked_queue()

    status, checks = asked()

    assert status == 200
    assert "1 queue " in checks["progress"]["next_step"]
    assert queue.name not in str(checks)


def test_kafka_away_is_ill_health_and_a_partner_away_is_not() -> None:
    some_live_processes()
    later = timezone.now() + LONG_AGO
    queue = a_waiting_queue(state="OUTAGE", state_code="OUTAGE", resume_at=later)
    assert asked()[0] == 200
    queue.partitions.update(state_code="KAFKA_UNAVAILABLE")

    status, checks = asked()

    assert (status, failing(checks)) == (503, ["progress"])
    assert checks["progress"]["why"] == "Kafka does not serve 1 queue."
    queue.partitions.update(state_code="JMS_UNREACHABLE")
    status, checks = asked()
    assert (status, checks["progress"]["why"]) == (503, "A JMS broker does not serve 1 queue.")


def test_messages_that_nobody_sends_are_ill_health() -> None:
    some_live_processes()
    queue = a_queue_row(direction="outbound")
    a_message_to_send(queue, created_at=timezone.now() - timedelta(minutes=2))
    status, checks = asked()
    assert (status, failing(checks)) == (503, ["relay"])

    later = timezone.now() + timedelta(minutes=1)
    lease = RelayLease.objects.create(provider=queue.provider, lease_until=later)
    assert asked()[0] == 200
    RelayLease.objects.filter(pk=lease.pk).update(lease_until=None, in_doubt_since=later)
    assert asked()[0] == 200, "a relay in doubt waits for a person"


def test_a_spark_driver_is_missed_only_where_a_bulk_run_waits_for_a_minute() -> None:
    some_live_processes()
    now = timezone.now()
    run = BulkRun.objects.create(job="import", actor="anna", asked_at=now)
    assert asked()[0] == 200, "it was asked for a moment ago"
    BulkRun.objects.update(asked_at=now - timedelta(minutes=2))

    status, checks = asked()

    assert (status, failing(checks)) == (503, ["spark"])
    assert "run_spark_driver" in checks["spark"]["next_step"]
    BulkRun.objects.filter(pk=run.pk).update(state="FAILED")
    assert asked()[0] == 200


def test_a_copy_is_told_without_its_name() -> None:
    some_live_processes()
    Deployment.objects.all().delete()
    Deployment.objects.create(name="x", environment="the-secret-plant", canary="x")

    status, checks = asked()

    assert (status, failing(checks)) == (503, ["environment"])
    assert "the-secret-plant" not in str(checks)


def test_a_database_that_is_away_is_told_and_the_rest_is_not_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise DatabaseError("could not connect to server db.internal as sluice")

    # The driver's own door: what stands behind it is the database and not ours.
    monkeypatch.setattr("django.db.backends.utils.CursorWrapper.execute", refuse)

    status, checks = asked()

    assert (status, tuple(checks), failing(checks)) == (503, NAMES, ["database"])
    assert {checks[name]["state"] for name in NAMES[1:-1]} == {"unknown"}
    assert checks["broker"]["state"] == "ok"
    assert "db.internal" not in str(checks)


def test_a_broker_that_is_away_is_told_without_its_address() -> None:
    some_live_processes()
    with celery_at("redis://127.0.0.1:1/0"):
        status, checks = asked()

    assert (status, failing(checks)) == (503, ["broker"])
    assert "127.0.0.1" not in str(checks)
    assert settings.SLUICE_ENVIRONMENT not in str(checks)
