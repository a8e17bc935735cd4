"""The built-in cron tasks that ask a broker."""

import pytest
from django.utils import timezone

from crontasks.builtin.lag_monitor import LagMonitor
from crontasks.builtin.retention_mirror import MirrorParameters, RetentionMirror
from crontasks.definitions import NoParameters
from crontasks.outcome import Context, RunState
from integration.models import Provider, Queue, QueuePartition
from tests.support.builders import a_queue
from tests.support.kafka_world import Kafka

pytestmark = [pytest.mark.servers, pytest.mark.django_db]


@pytest.fixture
def broker(servers) -> Kafka:
    return Kafka(servers.kafka_bootstrap)


def context() -> Context:
    return Context(instance_id=1, scheduled_at=timezone.now())


def retention(queue: Queue) -> int:
    return Queue.objects.get(pk=queue.pk).retention_seconds


def test_a_queue_follows_its_topics_retention_and_the_run_tells_it(broker):
    queue = a_queue(broker, topic=broker.topic(**{"retention.ms": "7200000"}))
    endless = a_queue(broker, topic=broker.topic(**{"retention.ms": "-1"}))
    before = retention(endless)

    asked = context()
    outcome = RetentionMirror().run(MirrorParameters(apply=False), asked)
    assert outcome.counts == {"changed": 0, "different": 1, "unreachable": 0}
    assert "nothing was changed" in asked.excerpt

    asked = context()
    outcome = RetentionMirror().run(MirrorParameters(), asked)
    assert outcome.counts["changed"] == 1
    assert (retention(queue), retention(endless)) == (7_200, before)
    assert f"{queue.name}: the topic keeps 7,200 s" in asked.excerpt
    assert RetentionMirror().run(MirrorParameters(), context()).is_empty


def test_the_lag_of_a_queue_that_nobody_reads_is_written_down(broker):
    queue = a_queue(broker, partitions=2)
    broker.send(queue.topic, [{"n": n} for n in range(7)], partition=1)
    assert LagMonitor().run(NoParameters(), context()).is_empty
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
    outcome = LagMonitor().run(NoParameters(), asked)
    assert (outcome.state, outcome.counts) == (RunState.FAILED, {"unreachable": 1})
    assert len(asked.excerpt.splitlines()) == 1
    assert reachable.partitions.get().lag == 0
