"""A transaction that a stranger leaves open holds back what lies behind it: that is told."""

import uuid
from collections.abc import Iterator
from datetime import timedelta

import pytest
from confluent_kafka import Producer
from django.utils import timezone

from crontasks.builtin.lag_monitor import LagMonitor, LagParameters
from crontasks.health import flow_work, readiness
from crontasks.health.checks import check
from crontasks.notices import conditions
from crontasks.outcome import Context
from integration.kafka import admin
from integration.models import Queue
from integration.selectors.queues.partitions import PartitionRow, partition_row
from integration.selectors.queues.status import Status
from integration.store.sessions import database_now
from tests.support.builders import a_queue
from tests.support.celery_world import eventually
from tests.support.kafka_world import Kafka
from tests.support.rows import some_live_processes

pytestmark = [pytest.mark.servers, pytest.mark.django_db]
HANGS = "TRANSACTION_HANGS"


@pytest.fixture
def broker(servers) -> Kafka:
    return Kafka(servers.kafka_bootstrap)


@pytest.fixture
def stranger(broker) -> Iterator[Producer]:
    """Another application's producer, in a transaction that is open until the test ends it."""
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "transactional.id": f"x-{uuid.uuid4().hex}",
            "log_level": 0,
        }
    )
    producer.init_transactions(20)
    producer.begin_transaction()
    yield producer
    producer.purge()


def look(limit: int = 30) -> None:
    context = Context(instance_id=1, scheduled_at=timezone.now())
    LagMonitor().run(LagParameters(transaction_seconds=limit), context)


def later(queue: Queue, seconds: int) -> None:
    """As if what was seen had been seen so long ago."""
    since = database_now() - timedelta(seconds=seconds)
    queue.partitions.update(state_since=since)


def seen(queue: Queue) -> PartitionRow:
    return partition_row(queue, queue.partitions.get())


def held_back(broker: Kafka, stranger: Producer) -> Queue:
    """A queue whose only messages lie in and behind an open transaction, as looked at once."""
    queue = a_queue(broker)
    stranger.produce(queue.topic, b"{}")
    assert stranger.flush(20) == 0
    broker.send(queue.topic, [{"n": n} for n in range(10)])
    look()
    return queue


def marked(queue: Queue) -> None:
    """The end of a transaction is decided first and written to its partitions after that."""
    eventually(lambda: admin.topic_facts(queue.provider, queue.topic).high[0] > 0)


def test_what_waits_behind_an_open_transaction_is_told_once_it_lasts(broker, stranger):
    queue = held_back(broker, stranger)
    assert seen(queue).status is Status.RUNNING
    assert "11 " in seen(queue).situation.why, "nobody is told that nothing waits"
    later(queue, 20)
    look()
    assert seen(queue).status is Status.RUNNING
    later(queue, 31)
    look()
    found = seen(queue)
    assert (found.status, found.code, found.lag) == (Status.OUTAGE, HANGS, 0)
    assert "11 " in found.situation.why
    assert "offset 0" in found.situation.why
    begin = f"kafka-transactions.sh --bootstrap-server {broker.bootstrap}"
    place = f"--topic {queue.topic} --partition 0"
    for command in (
        f"`{begin} describe-producers {place}`",
        f"`{begin} list`",
        f"`{begin} abort {place} --start-offset 0`",
    ):
        assert command in found.situation.next_step
    link = check("position", flow_work.position(Queue.objects.get(pk=queue.pk)))
    assert (link.ok, link.next_step) == (False, found.situation.next_step)
    # How long the brokers let a transaction last at most: Kafka's default of 15 minutes.
    until = queue.partitions.get().state_since + timedelta(minutes=16)
    assert f"{until:%H:%M} UTC" in found.situation.why


def test_one_that_lasts_longer_than_any_may_does_not_end_by_itself(broker, stranger):
    queue = held_back(broker, stranger)
    later(queue, 17 * 60)
    look()
    assert "this one does not end by itself" in seen(queue).situation.why


def test_a_cluster_with_logins_is_asked_with_the_administrators_settings(broker, stranger):
    queue = held_back(broker, stranger)
    later(queue, 31)
    look()
    queue.provider.security_protocol = "SASL_SSL"
    assert seen(queue).situation.next_step.count(" --command-config admin.properties ") == 3


def test_the_limit_is_the_tasks_own_parameter(broker, stranger):
    queue = held_back(broker, stranger)
    later(queue, 50)
    look(limit=60)
    assert seen(queue).status is Status.RUNNING
    look(limit=40)
    assert seen(queue).code == HANGS


def test_it_is_over_with_the_transaction(broker, stranger):
    queue = held_back(broker, stranger)
    later(queue, 31)
    look()
    assert seen(queue).code == HANGS
    stranger.abort_transaction(20)
    marked(queue)
    look()
    found = seen(queue)
    assert (found.status, found.code) == (Status.RUNNING, "")
    assert found.lag
    assert check("position", flow_work.position(Queue.objects.get(pk=queue.pk))).ok


def test_a_stable_end_that_moves_is_healthy_however_often_a_transaction_is_open(broker, stranger):
    queue = held_back(broker, stranger)
    later(queue, 31)
    stranger.commit_transaction(20)
    marked(queue)
    stranger.begin_transaction()
    stranger.produce(queue.topic, b"{}")
    assert stranger.flush(20) == 0
    look()
    queue.partitions.update(next_offset=seen(queue).high_watermark)
    assert seen(queue).status is Status.RUNNING
    look()
    assert seen(queue).status is Status.RUNNING


def test_a_queue_that_stands_for_a_reason_of_its_own_keeps_that_one(broker, stranger):
    queue = held_back(broker, stranger)
    queue.partitions.update(state="BLOCKED", state_code="GAP", state_text="Gone.")
    later(queue, 31)
    look()
    assert (seen(queue).status, seen(queue).code) == (Status.BLOCKED, "GAP")


def test_what_was_seen_before_the_queue_went_on_counts_no_more(broker, stranger):
    queue = held_back(broker, stranger)
    later(queue, 31)
    look()
    queue.partitions.update(next_offset=5)
    assert (seen(queue).status, seen(queue).code) == (Status.RUNNING, "")


def test_readiness_and_notices_name_it_too(broker, stranger):
    some_live_processes()
    queue = held_back(broker, stranger)
    later(queue, 31)
    look()
    progress = next(check for check in readiness.look() if check.name == "progress")
    assert progress.health.value == "failing"
    assert "transaction" in progress.why
    told = conditions.seen_by_workers(is_settled=False)
    assert [(one.kind, one.text.split(":")[0]) for one in told] == [("OUTAGE", HANGS)]
