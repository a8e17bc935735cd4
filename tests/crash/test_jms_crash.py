"""Kill the process that reads from a JMS broker, and the broker itself, then count every message.

What is tested: a commit of ours and the accept at the broker are two things, and a process may die
between them: the broker sends again what is applied here. How: a child is ended by SIGKILL at each
step of a run, a last run goes on, and each message is applied once, in order; the same with the
broker killed after the commit. From a JMS queue to a topic of Kafka the road is the same one, which
the relay ends in a transaction of Kafka: the founding text's crash, in which 2 and 3 are doubled.
"""

import json

import pytest

from devstack.artemis import USER
from integration.delivery.steps import Step
from integration.models import JmsReceipt, MessageError, OutboxRow, Queue, QueuePartition
from integration.runs.queues import run_queue
from integration.runs.relay import run_relay
from tests.support import warm
from tests.support.amqp import Broker
from tests.support.builders import a_provider
from tests.support.celery_world import eventually
from tests.support.jms import a_jms_queue, left, put
from tests.support.kafka_world import Kafka
from tests.support.killed import await_free_locks, await_kill
from tests.support.partners import an_endpoint
from tests.support.world.models import Effect

pytestmark = [pytest.mark.crash, pytest.mark.servers, pytest.mark.django_db(transaction=True)]
MESSAGES, BATCH = 60, 5
STEPS = [
    *(Step.ATTACHED, Step.FETCHED, Step.BEGUN, Step.HANDLED),
    *(Step.SETTLED, Step.COMMITTED, Step.GROUP_COMMITTED),
]


def killed_at(queue: Queue, environment: dict[str, str], step: Step, nth: int = 2) -> None:
    words = ["-m", "tests.support.crash_child", str(queue.pk), step, str(nth), "KILL"]
    child = warm.child(words, environment)
    await_kill(child, step)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", ["sequential", "continuous"])
def test_a_kill_at_any_step_applies_each_message_once(
    servers, child_environment, amqp_broker: Broker, kind: str
) -> None:
    # What a dead process had been sent comes back to the queue a moment after its end.
    queue = a_jms_queue(amqp_broker, kind, batch_size=BATCH, stay_seconds=2.0)
    # In a continuous queue every seventh is held, and passes.
    held = range(0, MESSAGES, 7) if kind == "continuous" else range(0)
    does = ["permanent" if n in held else "ok" for n in range(MESSAGES)]
    put(amqp_broker, queue, [{"n": n, "do": do} for n, do in enumerate(does)])
    for step in STEPS:
        killed_at(queue, child_environment, step, 1 if step is Step.ATTACHED else 2)
    run_queue(queue.pk)
    applied = list(Effect.objects.order_by("id").values_list("n", flat=True))
    assert applied == [n for n in range(MESSAGES) if n not in held]
    ids = MessageError.objects.order_by("offset").values_list("message_id", flat=True)
    assert list(ids) == [f"m{n}" for n in held]
    assert QueuePartition.objects.get(queue=queue).next_offset == MESSAGES
    assert left(amqp_broker, queue) == []


def test_a_broker_that_forgets_an_accept_doubles_nothing(
    servers, child_environment, amqp_broker: Broker
) -> None:
    queue = a_jms_queue(amqp_broker, batch_size=BATCH)
    put(amqp_broker, queue, [{"n": n, "do": "ok"} for n in range(2 * BATCH)])
    killed_at(queue, child_environment, Step.COMMITTED, 1)
    assert JmsReceipt.objects.count() == Effect.objects.count() > 0
    amqp_broker.kill()
    amqp_broker.server.start()
    run_queue(queue.pk)
    applied = list(Effect.objects.order_by("id").values_list("n", flat=True))
    assert applied == list(range(2 * BATCH))
    assert not JmsReceipt.objects.exists()
    assert left(amqp_broker, queue) == []


def test_a_message_that_nobody_reads_is_held_once_however_often_it_is_delivered(
    servers, child_environment, amqp_broker: Broker
) -> None:
    """A broker that counts a delivery changes the message's bytes: these cannot tell it."""
    # Only where the library is installed.
    from proton import UNDESCRIBED, Array, Data, Message, char  # noqa: PLC0415

    from tests.support import amqp_client  # noqa: PLC0415

    queue = a_jms_queue(amqp_broker, "continuous")
    raw = bytes(Message(id="m1", body=Array(UNDESCRIBED, Data.CHAR, char("a"))).encode())
    login = USER, amqp_broker.server.password
    amqp_client.put_raw(amqp_broker.port, login, queue.topic, raw)
    killed_at(queue, child_environment, Step.COMMITTED, 1)
    held = MessageError.objects.get()
    assert (held.code, held.state, held.message_id) == ("JMS_NOT_READ", "HOLD", "m1")
    assert bytes(held.payload or b"") == raw
    taken = [amqp_client.give_back(amqp_broker.port, login, queue.topic) for _ in range(2)]
    # The process that died may be counted, too.
    assert taken[-1].delivery_count > taken[0].delivery_count
    run_queue(queue.pk)
    assert MessageError.objects.get().pk == held.pk
    assert left(amqp_broker, queue) == []
    assert not JmsReceipt.objects.exists()


def test_from_a_jms_queue_to_a_topic_nothing_is_doubled(
    servers, child_environment, amqp_broker: Broker
) -> None:
    """1 is through; 2 and 3 are in Kafka when the process dies, 4 waits: the text's sequence.

    Of a slow broker 2 may come alone; the others then wait with 4.
    """
    kafka = Kafka(servers.kafka_bootstrap)
    target = kafka.topic()
    provider = a_provider(kafka.bootstrap)
    endpoint = an_endpoint(
        endpoint_type="kafka", properties={"provider": provider.name, "topic": target}
    )
    queue = a_jms_queue(
        amqp_broker, direction="outbound", endpoint=endpoint, default_service=None, batch_size=2
    )
    put(amqp_broker, queue, [{"n": 1}], first=1)
    run_queue(queue.pk)
    put(amqp_broker, queue, [{"n": 2}, {"n": 3}, {"n": 4}], first=2)
    words = ["-m", "tests.support.crash_child", str(queue.pk), Step.COMMITTED, "1", "STOP"]
    child = warm.child(words, child_environment)
    child.wait_until_stopped()
    through = diverted(kafka, provider.pk, target)
    assert through in ([1, 2, 3], [1, 2])
    child.kill()
    await_free_locks()
    # Nothing of it is accepted: the broker sends it again, once it has noticed.
    eventually(lambda: left(amqp_broker, queue) == ["m2", "m3", "m4"])
    run_queue(queue.pk)
    assert diverted(kafka, provider.pk, target) == [1, 2, 3, 4]
    assert left(amqp_broker, queue) == []


def diverted(kafka: Kafka, provider_id: int, topic: str) -> list[int]:
    """What is in Kafka once the relay has written all that is due."""
    run_relay(provider_id, stop=lambda: not OutboxRow.objects.filter(state="PENDING").exists())
    return [json.loads(one.value())["n"] for one in kafka.read_all(topic)]


def test_a_bridge_that_saves_its_state_afterwards_doubles_messages(
    servers, amqp_broker: Broker
) -> None:
    """The same crashes as above and in test_amqp_crash.py, with what they do elsewhere."""
    from tests.support import plain_bridge  # noqa: PLC0415 - only where the library is installed

    kafka = Kafka(servers.kafka_bootstrap)
    diverted = kafka.topic()
    source = a_jms_queue(amqp_broker)
    road = (amqp_broker, source.topic, kafka.bootstrap, diverted)
    for first, bodies, dies in ((1, [1], False), (2, [2, 3], True), (4, [4], False)):
        put(amqp_broker, source, [{"n": n} for n in bodies], first=first)
        waiting = len(left(amqp_broker, source))
        plain_bridge.egress(*road, take=waiting, dies=dies)
    seen = [json.loads(one.value())["n"] for one in kafka.read_all(diverted)]
    assert seen == [1, 2, 3, 2, 3, 4]

    polled = kafka.topic()
    road = (amqp_broker, f"out-{polled}", kafka.bootstrap, polled)
    for batch, dies_after in (([1, 2, 3], 0), ([4, 5, 6], 2), ([7], 0)):
        kafka.send(polled, batch)
        plain_bridge.ingress(*road, dies_after=dies_after)
    received = [json.loads(one.body) for one in amqp_broker.received(f"out-{polled}")]
    assert received == [1, 2, 3, 4, 5, 4, 5, 6, 7]
