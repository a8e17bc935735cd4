"""The fence and the epoch are needed: without either, a stopped owner does harm when it wakes.

What is tested: an owner is stopped by SIGSTOP with a batch open, and loses its lock session alone,
so that nothing but the fence stands between its batch and the position. How: the same scenario
runs with the engine as it is (no harm), and in a process whose statement lacks the safeguard
(harm, shown in SQL).
"""

import os
import signal
import time

import pytest
from confluent_kafka import KafkaException
from django.db import connection

from integration.actions.blocks import Place, adopt
from integration.delivery.steps import Step
from integration.kafka import admin
from integration.models import PartitionLease, Queue
from tests.support import warm
from tests.support.builders import a_queue
from tests.support.flows import drain, drain_past, effects, standing
from tests.support.kafka_world import Kafka
from tests.support.warm import WarmChild

pytestmark = [pytest.mark.crash, pytest.mark.servers, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def broker(servers) -> Kafka:
    return Kafka(servers.kafka_bootstrap)


def an_owner_stopped_in_its_batch(
    queue: Queue, environment: dict[str, str], mutation: str
) -> WarmChild:
    """Its handlers have run, nothing is settled; then its lock session dies, and only that."""
    words = ["-m", "tests.support.mutant_child", str(queue.pk), Step.HANDLED, "1", "STOP"]
    # A long lease: the thread that renews it must not notice before the batch is settled.
    lame = {"TESTS_MUTATION": mutation, "SLUICE_LEASE_SECONDS": "300"}
    owner = warm.child(words, environment | lame)
    owner.wait_until_stopped()
    pid = PartitionLease.objects.get(partition__queue=queue).lock_pid
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])
        assert cursor.fetchone() == (True,)
    return owner


def wake(owner: WarmChild) -> bytes:
    os.kill(owner.pid, signal.SIGCONT)
    said, _ = owner.communicate(timeout=40)
    return said


@pytest.mark.parametrize("mutation", ["none", "fence"])
def test_without_the_fence_a_batch_is_applied_twice(broker, child_environment, mutation):
    queue = a_queue(broker, batch_size=50)
    broker.send(queue.topic, [{"n": n} for n in range(20)])
    owner = an_owner_stopped_in_its_batch(queue, child_environment, mutation)
    try:
        drain_past(queue, 20)
        assert standing(queue) == (20, "RUNNING", "")
        assert effects() == list(range(20))
        said = wake(owner)
    finally:
        owner.kill()

    if mutation == "none":
        assert effects() == list(range(20)), said
        assert standing(queue) == (20, "RUNNING", "")
    else:
        assert len(effects()) > 20, said
        assert set(effects()) == set(range(20))


@pytest.mark.parametrize("mutation", ["none", "epoch"])
def test_without_the_epoch_messages_are_lost(broker, child_environment, mutation):
    """The position alone is no fence: a person who adopts a new topic sets it to 0 again."""
    queue = a_queue(broker, batch_size=50)
    broker.send(queue.topic, [{"n": n} for n in range(10)])
    owner = an_owner_stopped_in_its_batch(queue, child_environment, mutation)
    new = list(range(1_000, 1_004))
    try:
        recreate(broker, queue.topic)
        broker.send(queue.topic, [{"n": n} for n in new])
        assert drain(queue).ending == "BLOCKED"
        facts = admin.topic_facts(queue.provider, queue.topic)
        adopt(queue.pk, place=Place.START, facts=facts, actor="anna")
        assert standing(queue)[:2] == (0, "RUNNING")
        said = wake(owner)
    finally:
        owner.kill()

    if mutation == "none":
        drain_past(queue, 4)
        assert effects() == new, said
        assert standing(queue) == (4, "RUNNING", "")
    else:
        drain(queue)
        assert not set(new) & set(effects()), said
        assert standing(queue)[0] == 10


def recreate(broker: Kafka, topic: str) -> None:
    broker.delete(topic)
    deadline = time.monotonic() + 20
    while True:
        try:
            broker.topic(name=topic)
        except KafkaException:  # the broker is still deleting the old one
            assert time.monotonic() < deadline
            time.sleep(0.05)
        else:
            return
