"""The built-in cron tasks that ask a broker."""

from datetime import timedelta

import pytest
from confluent_kafka.admin import NewPartitions
from django.core import mail
from django.utils import timezone

from crontasks.builtin import resting
from crontasks.builtin.lag_monitor import LagMonitor, LagParameters
from crontasks.builtin.retention_sync import RetentionSync, SyncParameters
from crontasks.models import CronInstance, Notice
from crontasks.notices import book, conditions
from crontasks.outcome import Context, RunState
from crontasks.problems.asking import providers_away
from integration.kafka import looks
from integration.models import ConfigurationChange, Provider, Queue, QueuePartition
from integration.store.sessions import database_now
from tests.support.builders import a_queue
from tests.support.celery_world import eventually
from tests.support.kafka_world import Kafka
from tests.support.rows import a_held

pytestmark = [pytest.mark.servers, pytest.mark.django_db]
# The largest that Kafka takes: what people write for "never".
MOST = 2**63 - 1


@pytest.fixture
def broker(servers) -> Kafka:
    return Kafka(servers.kafka_bootstrap)


def context() -> Context:
    return Context(instance_id=1, scheduled_at=timezone.now())


def retention(queue: Queue) -> int:
    return Queue.objects.get(pk=queue.pk).retention_seconds


def test_what_a_topic_takes_is_known_to_its_queue(broker):
    queue = a_queue(broker, topic=broker.topic(**{"max.message.bytes": "12345"}))
    RetentionSync().run(SyncParameters(apply=False), context())
    assert Queue.objects.get(pk=queue.pk).topic_max_bytes == 12_345


def test_a_queue_follows_its_topics_retention_and_the_run_tells_it(broker):
    queue = a_queue(broker, topic=broker.topic(**{"retention.ms": "7200000"}))
    endless, largest = (
        a_queue(broker, topic=broker.topic(**{"retention.ms": str(most)})) for most in (-1, MOST)
    )
    before = retention(endless)

    asked = context()
    outcome = RetentionSync().run(SyncParameters(apply=False), asked)
    assert outcome.counts == {"changed": 0, "different": 1, "unreachable": 0}
    assert "nothing was changed" in asked.excerpt

    asked = context()
    outcome = RetentionSync().run(SyncParameters(), asked)
    assert outcome.counts["changed"] == 1
    assert [retention(one) for one in (queue, endless, largest)] == [7_200, before, before]
    assert f"{queue.name}: the topic keeps 7,200 s" in asked.excerpt
    [change] = ConfigurationChange.objects.filter(kind="queue", action="change")
    assert (change.actor, change.name) == (asked.actor, queue.name)
    assert change.after == {"retention_seconds": 7_200}
    assert RetentionSync().run(SyncParameters(), context()).is_empty


def test_the_lag_of_a_queue_that_nobody_reads_is_written_down(broker):
    queue = a_queue(broker, partitions=2)
    broker.send(queue.topic, [{"n": n} for n in range(7)], partition=1)
    assert LagMonitor().run(LagParameters(), context()).is_empty
    lags = QueuePartition.objects.filter(queue=queue).order_by("partition")
    assert [row.lag for row in lags] == [0, 7]
    oldest = [row.oldest_waiting_at for row in lags]
    assert oldest[0] is None
    assert abs((timezone.now() - oldest[1]).total_seconds()) < 60


def test_a_broker_that_does_not_answer_is_asked_once_and_fails_the_run(broker):
    reachable = a_queue(broker)
    silent = Provider.objects.create(name="silent", bootstrap_servers="127.0.0.1:1")
    for _ in range(2):
        Queue.objects.filter(pk=a_queue(broker).pk).update(provider=silent)
    asked = context()
    outcome = LagMonitor().run(LagParameters(), asked)
    assert (outcome.state, outcome.counts) == (RunState.FAILED, {"unreachable": 1})
    assert len(asked.excerpt.splitlines()) == 1
    assert reachable.partitions.get().lag == 0


def a_sync(**fields) -> CronInstance:
    values = {"name": "sync", "task": "retention_sync", "crontab": "7 * * * *"}
    return CronInstance.objects.create(**(values | fields))


def look() -> None:
    LagMonitor().run(LagParameters(), context())


@pytest.fixture
def no_instances(db) -> None:
    CronInstance.objects.all().delete()


def test_a_look_follows_the_topics_retention_as_its_instance_is_set(broker, no_instances):
    queue = a_queue(broker, topic=broker.topic(**{"retention.ms": "7200000"}))
    largest = a_queue(broker, topic=broker.topic(**{"retention.ms": str(MOST)}))
    before = retention(queue)
    look()
    assert retention(queue) == before, "without an instance nothing follows"
    sync = a_sync(parameters={"apply": False})
    look()
    assert retention(queue) == before
    sync.parameters = {}
    sync.save()
    look()
    assert (retention(queue), retention(largest)) == (7_200, before)
    [change] = ConfigurationChange.objects.filter(kind="queue", action="change")
    assert (change.name, change.after) == (queue.name, {"retention_seconds": 7_200})


def test_many_topics_are_looked_at_at_once_and_one_that_is_gone_spoils_nothing(broker):
    first, gone, last = (a_queue(broker, partitions=2) for _ in range(3))
    for queue in (first, last):
        broker.send(queue.topic, [{"n": 1}], partition=1)
    broker.delete(gone.topic)
    look()
    for queue in (first, last):
        assert sum(row.lag for row in queue.partitions.all()) == 1
    assert not gone.partitions.exclude(seen_at=None).exists()


def test_a_run_is_asked_for_where_the_topic_of_an_idle_queue_got_a_partition(broker):
    """What waits for a message waits at the partitions that are known."""
    grown, same = a_queue(broker), a_queue(broker)
    look()
    assert asked_for() == set()
    broker.admin.create_partitions([NewPartitions(grown.topic, 2)])[grown.topic].result(20)
    eventually(lambda: look() or asked_for())
    assert asked_for() == {grown.pk}
    Queue.objects.update(start_requested_at=None)
    grown.partitions.update(state="BLOCKED", state_code="MORE_PARTITIONS")
    look()
    assert asked_for() == set(), f"nobody waits for a message there, nor at {same}"
    grown.partitions.update(topic_uuid="of the topic before this one")
    look()
    assert asked_for() == {grown.pk}, "a run has to say so, for a person to decide"


def asked_for() -> set[int]:
    return set(Queue.objects.exclude(start_requested_at=None).values_list("pk", flat=True))


def test_of_many_idle_queues_that_are_watched_a_look_asks_about_a_few(broker, monkeypatch):
    idle, busy = a_queue(broker, partitions=2), a_queue(broker, partitions=2)
    broker.send(busy.topic, [{"n": 1}])
    look()
    # Whoever asks about it sets it right.
    QueuePartition.objects.update(low_watermark=-1, seen_at=database_now() - timedelta(hours=1))
    QueuePartition.objects.update(idle_since=database_now())
    Provider.objects.update(idle_watched_at=database_now())
    monkeypatch.setattr(resting, "LEAST", 0)
    look()
    assert marks(idle) == {-1}
    assert all(timezone.now() - row.seen_at < timedelta(minutes=5) for row in idle.partitions.all())
    assert marks(busy) == {0}, "something waits there"
    monkeypatch.setattr(resting, "LEAST", 1)
    look()
    assert marks(idle) == {0}, "each has its turn"
    QueuePartition.objects.update(low_watermark=-1)
    monkeypatch.setattr(resting, "LEAST", 0)
    Provider.objects.update(idle_watched_at=database_now() - timedelta(seconds=30))
    look()
    assert marks(idle) == {0}, "nobody watches it"


def marks(queue: Queue) -> set[int]:
    return {row.low_watermark for row in queue.partitions.all()}


def test_behind_a_head_in_its_row_the_next_message_is_the_oldest(broker):
    queue = a_queue(broker, "sequential")
    now = int(timezone.now().timestamp() * 1_000)
    for ago in (7_200, 3_600):
        broker.send(queue.topic, [{"n": 1}], timestamp=now - ago * 1_000)
    look()
    head = queue.partitions.get().oldest_waiting_at
    assert round((timezone.now() - head).total_seconds() / 60) == 120
    error = a_held(queue, 0)
    queue.partitions.update(state="BLOCKED", state_error=error.pk, state_since=database_now())
    look()
    behind = queue.partitions.get().oldest_waiting_at
    assert round((timezone.now() - behind).total_seconds() / 60) == 60


def test_a_position_that_stands_is_not_asked_about_again(broker):
    queue = a_queue(broker)
    broker.send(queue.topic, [{"n": 1}, {"n": 2}])
    look()
    known = queue.partitions.get().oldest_waiting_at
    assert known is not None
    # Whoever asked now would get another time than this one.
    queue.partitions.update(oldest_waiting_at=known - timedelta(hours=1))
    look()
    assert queue.partitions.get().oldest_waiting_at == known - timedelta(hours=1)
    queue.partitions.update(progressed_at=database_now(), next_offset=1)
    look()
    assert queue.partitions.get().oldest_waiting_at >= known


def test_a_provider_that_does_not_answer_is_noted_until_it_does(broker, settings, monkeypatch):
    settings.SLUICE_NOTIFY_EMAILS = ["ops@example.org"]
    queue = a_queue(broker)
    silent = Provider.objects.create(name="silent", bootstrap_servers="127.0.0.1:1")
    Queue.objects.filter(pk=queue.pk).update(provider=silent)
    with monkeypatch.context() as nobody_else_is_asked:
        nobody_else_is_asked.setattr(looks, "ANSWER_SECONDS", 1.0)
        for _ in range(2):
            look()
    notice = Notice.objects.get()
    assert (notice.kind, notice.subject) == ("OUTAGE", "provider silent")
    assert notice.text.startswith("BROKER_UNREACHABLE: ")
    assert providers_away() == {"silent": notice.text}

    tell = [conditions.seen_by_workers(is_settled=False), conditions.WORKER_KINDS]
    book.settle(*tell)
    assert mail.outbox == [], "a broker that restarts is nobody's mail"
    Notice.objects.update(opened_at=database_now() - timedelta(seconds=40))
    book.settle(*tell)
    [message] = mail.outbox
    assert message.subject.endswith(": provider silent")

    silent.bootstrap_servers = broker.bootstrap
    silent.save()
    look()
    assert providers_away() == {}
    assert Notice.objects.get().closed_at is not None
