"""A Java JMS client sends to one queue, and receives from another one what went through Kafka.

What is tested: the road from a JMS queue to a topic and from there to a JMS queue keeps kind, body,
headers, properties with their types, and order. How: the client is Artemis' own, which knows
nothing of AMQP or Sluice; it writes down each message that it sends and that it receives.
"""

import json
import subprocess

import pytest

from bench import jms_client
from integration.models import MessageError, OutboxRow
from integration.runs.queues import run_queue
from integration.runs.relay import run_relay
from tests.support.amqp import Broker
from tests.support.builders import a_provider
from tests.support.jms import a_jms_queue
from tests.support.kafka_world import Kafka
from tests.support.partners import an_endpoint, an_outbound_queue

pytestmark = [pytest.mark.servers, pytest.mark.django_db(transaction=True)]

# Five kinds of messages, each a few times.
MESSAGES = 25


def by_java(jms: Broker, verb: str, queue: str, count: int) -> list[str]:
    """What the program tells of each message; it is compiled as it is started."""
    said = subprocess.run(
        jms_client.command(jms.server, verb, queue, count).argv,
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=120,
    )
    assert said.returncode == 0, said.stderr[-2_000:] or said.stdout
    return jms_client.told(said.stdout)


@pytest.mark.timeout(300)
def test_what_a_jms_client_sends_another_one_receives_as_it_was(servers, amqp_broker: Broker):
    kafka = Kafka(servers.kafka_bootstrap)
    provider, target = a_provider(kafka.bootstrap), kafka.topic()
    out = an_endpoint(
        endpoint_type="kafka", properties={"provider": provider.name, "topic": target}
    )
    source = a_jms_queue(amqp_broker, direction="outbound", endpoint=out, default_service=None)
    properties = amqp_broker.properties(at_once=10, restores=True)
    back = an_endpoint(
        endpoint_type="amqp",
        idempotent=True,
        properties=properties,
        secrets=json.dumps({"password": amqp_broker.server.password}),
    )
    sink = an_outbound_queue(kafka, topic=target, endpoint=back, stay_seconds=0.1)
    sent = by_java(amqp_broker, "send", source.topic, MESSAGES)
    assert len(sent) == MESSAGES
    run_queue(source.pk)
    run_relay(provider.pk, stop=lambda: not OutboxRow.objects.filter(state="PENDING").exists())
    kafka.await_decided(target)
    run_queue(sink.pk)
    assert not MessageError.objects.exists(), MessageError.objects.first().code
    assert by_java(amqp_broker, "receive", properties["address"], MESSAGES) == sent
