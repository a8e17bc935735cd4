"""Sequential queues: what is inserted first is committed first, and nobody waits without end."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import DatabaseError, connection, connections, transaction

from devstack.server import Server
from integration import envelope
from integration.handlers import QueueLockTimeoutError, publish
from integration.handlers.failures import classify
from integration.models import MessageError, OutboxRow, Queue
from integration.runs.queues import run_queue
from tests.support.builders import a_brief_queue as a_queue
from tests.support.channels import a_channel, a_target, an_outbound
from tests.support.kafka_world import Kafka

pytestmark = [pytest.mark.servers]


@pytest.mark.django_db(transaction=True)
def test_insert_order_of_a_strict_queue_is_commit_order() -> None:
    """The second waits for the first to commit, although it could insert at once."""
    a_channel("MXPO", "erp", kind=Queue.Kind.SEQUENTIAL)
    events: list[str] = []
    at_work = threading.Event()

    def second() -> None:
        at_work.set()
        with transaction.atomic():
            publish("MXPO", {"n": 2})
            events.append("second inserted")
        connections.close_all()

    other = threading.Thread(target=second)
    with transaction.atomic():
        publish("MXPO", {"n": 1})
        other.start()
        at_work.wait(10)
        wait_for_a_waiter()
        events.append("first goes on")
    other.join(10)
    assert events == ["first goes on", "second inserted"]
    rows = OutboxRow.objects.order_by("id")
    bodies = [envelope.read(bytes(row.value)) for row in rows]
    assert [one.body for one in bodies if isinstance(one, envelope.Document)] == [
        {"n": 1},
        {"n": 2},
    ]
    assert {row.strict_queue for row in rows} == {Queue.objects.get().pk}


@pytest.mark.django_db(transaction=True)
def test_who_waits_too_long_is_told_and_may_go_on(settings: Any) -> None:
    settings.SLUICE_PUBLISH_LOCK_SECONDS = 0.05
    a_channel("MXPO", "erp", kind=Queue.Kind.SEQUENTIAL)
    with held("MXPO") as let_go, transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL lock_timeout = '7s'")
        with pytest.raises(QueueLockTimeoutError, match="erp-out") as told:
            publish("MXPO", {"n": 2})
        assert lock_timeout() == "7s"
        let_go()
        publish("MXPO", {"n": 3})
        assert lock_timeout() == "7s"
    assert isinstance(told.value, DatabaseError)
    failure = classify(told.value)
    assert (failure.kind, failure.code) == ("conflict", "QUEUE_LOCK_TIMEOUT")
    assert OutboxRow.objects.count() == 2


@pytest.mark.django_db(transaction=True)
def test_a_batch_that_waits_too_long_is_repeated_and_then_tried_later(
    kafka: Server, settings: Any
) -> None:
    """The handler published nothing wrong: its message waits as a retry, and is sent after it."""
    settings.SLUICE_PUBLISH_LOCK_SECONDS = 0.02
    broker = Kafka(kafka.bootstrap)
    out = a_queue(broker, "sequential", name="out", direction="outbound")
    queue = a_queue(broker, "continuous", carrier="row", max_retries=1_000, retry_delay_seconds=0)
    target = an_outbound("out")
    a_target(a_channel("MXPO"), "erp", queue=target)
    broker.send(queue.topic, [{"n": 1, "do": "publish"}])
    with held("MXPO"):
        run_queue(queue.pk)
    failure = MessageError.objects.get()
    assert (failure.code, failure.state) == ("QUEUE_LOCK_TIMEOUT", "RETRY")
    assert OutboxRow.objects.filter(topic=out.topic).count() == 1
    run_queue(queue.pk)
    failure.refresh_from_db()
    assert failure.state == "RESOLVED"
    rows = OutboxRow.objects.filter(topic=out.topic).order_by("id")
    assert [bytes(row.key or b"") for row in rows] == [b"", b"1"]


@contextmanager
def held(channel: str) -> Iterator[Callable[[], None]]:
    """While another transaction has published to the channel; it ends at the call, or after."""
    taken, done = threading.Event(), threading.Event()

    def holds() -> None:
        with transaction.atomic():
            publish(channel, {"n": 1})
            taken.set()
            done.wait(20)
        connections.close_all()

    def let_go() -> None:
        done.set()
        other.join(20)

    other = threading.Thread(target=holds)
    other.start()
    assert taken.wait(20)
    try:
        yield let_go
    finally:
        let_go()


def lock_timeout() -> str:
    with connection.cursor() as cursor:
        cursor.execute("SHOW lock_timeout")
        return str(cursor.fetchone()[0])


def wait_for_a_waiter() -> None:
    """Until another session waits for an advisory lock that this one holds."""
    with connection.cursor() as cursor:
        for _ in range(2_000):
            cursor.execute(
                "SELECT count(*), pg_sleep(0.005) FROM pg_locks "
                "WHERE locktype = 'advisory' AND NOT granted"
            )
            if cursor.fetchone()[0]:
                return
    raise AssertionError("nobody waits")
