"""Kill the sender between Kafka and a JMS broker, and the broker itself, then count at the broker.

What is tested: a queue with an endpoint at a real broker, in a child that is ended by SIGKILL when
messages have reached the broker and nothing of that is written down: a bridge that commits its
offsets afterwards sends them again. How: the endpoint repeats them under the same id, and the
broker's cache of ids, which outlives its own SIGKILL, drops them.
"""

import json
import uuid
from typing import Any

import pytest

from integration.delivery.steps import Step
from integration.kafka.source import consumer_group
from integration.models import Delivery, Queue
from integration.runs.queues import run_queue
from tests.support import warm
from tests.support.amqp import Broker
from tests.support.kafka_world import Kafka
from tests.support.killed import await_kill
from tests.support.partners import an_endpoint, an_outbound_queue, numbers, post

pytestmark = [pytest.mark.crash, pytest.mark.servers, pytest.mark.django_db(transaction=True)]

# The bridge of the founding text: 1, 2, 3 are committed, 4 and 5 of 4, 5, 6 are through, 7 is new.
BEFORE, IN_WORK, BEHIND = 3, 3, 1
ALL = BEFORE + IN_WORK + BEHIND
# A sequential queue makes one call at a time, the other one for the whole batch.
KILLS = {
    "sequential": [(Step.INTENDED, 1), (Step.SENT, 1), (Step.SENT, 2), (Step.COMMITTED, 2)],
    "continuous": [(Step.INTENDED, 1), (Step.SENT, 1), (Step.COMMITTED, 1)],
}


@pytest.fixture
def broker(servers) -> Kafka:
    return Kafka(servers.kafka_bootstrap)


def a_bridge(kafka: Kafka, jms: Broker, kind: str, **fields: Any) -> tuple[Queue, str]:
    """A queue whose records go to a JMS queue, and the name of that."""
    properties = jms.properties(at_once=10)
    endpoint = an_endpoint(
        endpoint_type="amqp",
        idempotent=True,
        properties=properties,
        secrets=json.dumps({"password": jms.server.password}),
    )
    queue = an_outbound_queue(kafka, kind, endpoint=endpoint, stay_seconds=0.1, **fields)
    return queue, properties["address"]


def at_broker(jms: Broker, address: str) -> list[int]:
    return numbers([str(message.id) for message in jms.received(address)])


def killed_in(queue: Queue, environment: dict[str, str], step: Step, nth: int) -> None:
    words = ["-m", "tests.support.sending_child", str(queue.pk), "-", str(step), str(nth), "KILL"]
    child = warm.child(words, environment)
    await_kill(child, step)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", KILLS)
def test_records_that_reached_the_jms_queue_before_a_crash_are_there_once(
    broker: Kafka, child_environment, amqp_broker: Broker, kind: str
) -> None:
    queue, address = a_bridge(broker, amqp_broker, kind)
    posted = 0
    for step, nth in KILLS[kind]:
        post(broker, queue, BEFORE, first=posted)
        run_queue(queue.pk)
        post(broker, queue, IN_WORK, first=posted + BEFORE)
        killed_in(queue, child_environment, step, nth)
        post(broker, queue, BEHIND, first=posted + BEFORE + IN_WORK)
        run_queue(queue.pk)
        posted += ALL
        assert at_broker(amqp_broker, address) == list(range(posted)), step
    assert not Delivery.objects.filter(queue=queue, state__in=["SENDING", "UNKNOWN"]).exists()


def test_a_broker_that_is_killed_in_between_doubles_nothing(
    broker: Kafka, child_environment, amqp_broker: Broker
) -> None:
    queue, address = a_bridge(broker, amqp_broker, "continuous")
    post(broker, queue, ALL)
    killed_in(queue, child_environment, Step.SENT, 1)
    amqp_broker.kill()
    amqp_broker.server.start()
    run_queue(queue.pk)
    assert at_broker(amqp_broker, address) == list(range(ALL))


def test_the_offsets_of_a_group_are_a_copy_on_which_nothing_depends(
    broker: Kafka, amqp_broker: Broker
) -> None:
    queue, address = a_bridge(broker, amqp_broker, "continuous")
    group = consumer_group(queue.name)
    post(broker, queue, BEFORE)
    Queue.objects.filter(pk=queue.pk).update(stay_seconds=20.0)

    def stop(**_: object) -> str | None:
        return "seen" if broker.committed(group, queue.topic) == BEFORE else None

    run_queue(queue.pk, stop=stop)
    assert broker.committed(group, queue.topic) == BEFORE
    # A bridge that goes by the group sends all of it again.
    broker.commit(group, queue.topic, 0)
    Queue.objects.filter(pk=queue.pk).update(stay_seconds=0.1)
    post(broker, queue, BEHIND, first=BEFORE)
    report = run_queue(queue.pk)
    assert sum(report.counts.values()) == BEHIND
    assert at_broker(amqp_broker, address) == list(range(BEFORE + BEHIND))


def test_a_plain_bridge_doubles_what_it_sent_before_it_committed(amqp_broker: Broker) -> None:
    """The text's own: each record of a batch is sent, then the offsets are committed."""
    address = f"plain-{uuid.uuid4()}"
    committed = 0

    def poll_and_send(records: range, dies_after: int | None = None) -> None:
        nonlocal committed
        for at, number in enumerate(records):
            if at == dies_after:
                return
            amqp_broker.put(address, f"m{number}")
        committed = records.stop

    poll_and_send(range(1, 4))
    poll_and_send(range(4, 7), dies_after=2)
    poll_and_send(range(4, 8))
    assert at_broker(amqp_broker, address) == [1, 2, 3, 4, 5, 4, 5, 6, 7]
    assert committed == 8
