"""Kill a queue that forwards at every step: each message is one record of the other topic.

How: one child process after the other runs the queue, does one batch, and is ended by SIGKILL in
the next, each at another Step of the handler's road, with some messages failing on the way; a last
run and the relay go on. Then a read_committed reader of the other topic says whether each message
is there once, in the order of its key.
"""

import json

import pytest

from integration.delivery.steps import Step
from integration.models import MessageError, MessageTrack, OutboxRow, QueuePartition
from integration.runs.queues import run_queue
from integration.runs.relay import run_relay
from tests.support import warm
from tests.support.kafka_world import Kafka
from tests.support.killed import await_kill
from tests.support.partners import an_endpoint, an_outbound_queue

pytestmark = [pytest.mark.crash, pytest.mark.servers, pytest.mark.django_db(transaction=True)]
MESSAGES = 60
STEPS = [Step.BEGUN, Step.HANDLED, Step.SETTLED, Step.COMMITTED]


def test_a_kill_at_any_step_of_forwarding_loses_and_doubles_nothing(servers, child_environment):
    broker = Kafka(servers.kafka_bootstrap)
    target = broker.topic(partitions=2)
    # Every tenth message has no key to be made of, and is held.
    made = {"key_from": "template", "key": "{$.k}", "provider": "main", "topic": target}
    endpoint = an_endpoint(endpoint_type="kafka", properties=made)
    queue = an_outbound_queue(
        broker, "continuous", endpoint=endpoint, stay_seconds=0.0, batch_size=10
    )
    broker.send(queue.topic, [{"n": n} | ({"k": n % 3} if n % 10 else {}) for n in range(MESSAGES)])
    for step in STEPS:
        words = ["-m", "tests.support.crash_child", str(queue.pk), step, "2", "KILL"]
        killed = warm.child(words, child_environment)
        await_kill(killed, step)
    run_queue(queue.pk)
    run_relay(
        queue.provider_id, stop=lambda: not OutboxRow.objects.filter(state="PENDING").exists()
    )
    assert QueuePartition.objects.get(queue=queue).next_offset == MESSAGES
    held = MessageError.objects.filter(queue=queue).values_list("offset", flat=True)
    assert sorted(held) == list(range(0, MESSAGES, 10))
    good = [n for n in range(MESSAGES) if n % 10]
    read = [json.loads(one.value())["n"] for one in broker.read_all(target, range(2))]
    assert sorted(read) == good
    for key in range(3):
        mine = [n for n in read if n % 3 == key]
        assert mine == sorted(mine), "out of order"
    assert MessageTrack.objects.filter(queue=queue, ended="DELIVERED").count() == len(good)
