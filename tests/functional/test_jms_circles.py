"""Circles that lead through a JMS broker: refused where they can be seen, else ended by a trail.

What is tested: a message that goes from Kafka to a JMS queue and back keeps the trail by which
forwards know it. How: two queues that feed each other by a real broker, which is killed and started
anew with the message in it; the second turn is held, and nothing of it goes on.
"""

import json
import uuid
from typing import Any

import pytest
from django.conf import settings
from django.core.exceptions import ValidationError
from django.test import Client
from django.urls import reverse

from integration.codec import decode_headers
from integration.delivery.report import RunEnding
from integration.endpoints import properties as endpoint_properties
from integration.models import Endpoint, ExternalSystem, MessageError, OutboxRow, Provider, Queue
from integration.runs.queues import run_queue
from integration.runs.relay import run_relay
from tests.functional.setup_world import a_form, mistakes
from tests.support.amqp import Broker
from tests.support.jms import a_jms_queue, left, put
from tests.support.kafka_world import Kafka
from tests.support.partners import an_endpoint, an_outbound_queue
from tests.support.rows import a_jms_provider_row
from tests.support.set_up import logged_in

pytestmark = [pytest.mark.servers, pytest.mark.django_db(transaction=True)]
ADDRESS = "orders"


class TestTheForm:
    """At a broker whose servers are 10.0.0.1:5672 and 10.0.0.2:5672, and at a cluster."""

    @pytest.fixture
    def system(self) -> ExternalSystem:
        return ExternalSystem.objects.create(name="partner")

    @pytest.fixture
    def there(self, system: ExternalSystem) -> Queue:
        """From the JMS queue to the topic t1."""
        jms = a_jms_provider_row()
        jms.bootstrap_servers = "10.0.0.1, 10.0.0.2:5672"
        jms.save()
        Provider.objects.create(name="main", bootstrap_servers="127.0.0.1:1")
        stored = {"provider": "main", "topic": "t1"}
        end = an_endpoint(system=system, endpoint_type="kafka", properties=stored)
        return a_row(jms, ADDRESS, end)

    @pytest.mark.parametrize(
        ("properties", "is_refused"),
        [
            ({"host": "10.0.0.1"}, True),
            ({"host": "10.0.0.2", "port": 5672}, True),
            ({"host": "10.0.0.1", "address": "others"}, False),
            ({"host": "10.0.0.1", "port": 5673}, False),
            ({"host": "10.0.0.3"}, False),
            ({"host": "10.0.0.1", "address_kind": "topic"}, False),
        ],
    )
    def test_the_way_back_is_refused_and_another_one_is_not(
        self, there: Queue, properties: dict[str, Any], is_refused: bool
    ) -> None:
        back = an_endpoint(endpoint_type="amqp", properties={"address": ADDRESS, **properties})
        queue = a_row(Provider.objects.get(name="main"), "t1", back, saved=False)
        if not is_refused:
            queue.clean()
            return
        with pytest.raises(ValidationError) as refused:
            queue.clean()
        [sentence] = refused.value.message_dict["endpoint"]
        assert f"{queue.name} → {there.name}" in sentence
        assert sentence.startswith("Messages of t1 would go round for ever")

    def test_the_queue_that_closes_it_is_told_whichever_it_is(self, there: Queue) -> None:
        back = an_endpoint(
            endpoint_type="amqp", properties={"host": "10.0.0.2", "address": ADDRESS}
        )
        a_row(Provider.objects.get(name="main"), "t1", back)
        with pytest.raises(ValidationError) as refused:
            there.clean()
        [sentence] = refused.value.message_dict["endpoint"]
        assert sentence.startswith(f"Messages of {ADDRESS} would go round for ever")

    def test_an_endpoint_that_is_changed_to_it_is_refused(self, there: Queue) -> None:
        elsewhere = {"host": "10.0.0.2", "address": "others"}
        back = an_endpoint(endpoint_type="amqp", properties=elsewhere)
        a_row(Provider.objects.get(name="main"), "t1", back)
        back.clean()
        back.properties = {"host": "10.0.0.2", "address": ADDRESS}
        with pytest.raises(ValidationError, match="go round for ever"):
            back.clean()

    def test_a_topic_is_another_one_than_a_queue_of_its_name(self, there: Queue) -> None:
        Queue.objects.filter(pk=there.pk).update(subscription="sluice")
        for kind, is_refused in (("queue", False), ("topic", True)):
            stored = {"host": "10.0.0.1", "address": ADDRESS, "address_kind": kind}
            back = an_endpoint(endpoint_type="amqp", properties=stored)
            queue = a_row(Provider.objects.get(name="main"), "t1", back, saved=False)
            if is_refused:
                with pytest.raises(ValidationError):
                    queue.clean()
            else:
                queue.clean()

    def test_nobody_fills_the_property_that_tells_the_way(self) -> None:
        properties = {"message_properties": {"sluice_forwards": "{key}"}}
        sentence = endpoint_properties.mistakes("amqp", {"host": "h", "address": "a"} | properties)
        assert "came by" in sentence["message_properties"]

    def test_who_sets_it_up_on_the_page_is_told_at_the_endpoint(self, there: Queue) -> None:
        client = logged_in(name="anna")
        back = an_endpoint(
            endpoint_type="amqp", properties={"host": "10.0.0.1", "address": "others"}
        )
        queue = a_row(Provider.objects.get(name="main"), "t1", back)
        Endpoint.objects.filter(pk=back.pk).update(
            properties={"host": "10.0.0.1", "address": ADDRESS}
        )
        assert "go round for ever" in said_of_endpoint(client, queue)


def said_of_endpoint(client: Client, queue: Queue) -> str:
    """What the queue's form says of its endpoint when it is saved."""
    address = reverse("queue-change", args=[queue.name])
    answer = client.post(address, a_form(client, address, description="anew"))
    return " ".join(mistakes(answer)["endpoint"])


def a_row(provider: Provider, topic: str, endpoint: Endpoint, *, saved: bool = True) -> Queue:
    queue = Queue(
        name=f"q-{uuid.uuid4().hex[:8]}",
        provider=provider,
        topic=topic,
        kind="continuous",
        direction="outbound",
        system=endpoint.system,
        endpoint=endpoint,
        start_from="beginning",
    )
    if saved:
        queue.save()
    return queue


class TestBehindTheForm:
    @pytest.fixture
    def broker(self, servers: Any) -> Kafka:
        return Kafka(servers.kafka_bootstrap)

    @staticmethod
    def a_circle(kafka: Kafka, jms: Broker) -> tuple[Queue, Queue]:
        """From a JMS queue to a topic, and from there to the JMS queue."""
        topic = kafka.topic()
        to_topic = an_endpoint(
            endpoint_type="kafka", properties={"provider": "main", "topic": topic}
        )
        leads = {"direction": "outbound", "endpoint": to_topic, "default_service": None}
        out = a_jms_queue(jms, "continuous", **leads)
        to_queue = an_endpoint(
            endpoint_type="amqp",
            idempotent=True,
            properties=jms.properties(address=out.topic, restores=True),
            secrets=json.dumps({"password": jms.server.password}),
        )
        # Nobody asks `clean`.
        return out, an_outbound_queue(kafka, topic=topic, endpoint=to_queue, stay_seconds=0.1)

    def test_a_message_from_the_jms_queue_is_held_after_one_round(
        self, broker: Kafka, amqp_broker: Broker
    ) -> None:
        out, back = self.a_circle(broker, amqp_broker)
        put(amqp_broker, out, [{"n": 1}], properties={"site": "BEDFORD"})
        once_round(broker, out, back)
        amqp_broker.kill()
        amqp_broker.server.start()
        [message] = amqp_broker.received(out.topic)
        trail = [f"{settings.SLUICE_DEPLOYMENT}/{queue.name}" for queue in (out, back)]
        assert message.properties["sluice_forwards"] == ",".join(trail)
        assert message.properties["site"] == "BEDFORD"
        run_queue(out.pk)
        held = MessageError.objects.get()
        assert (held.queue_id, held.code, held.state) == (out.pk, "FORWARD_LOOP", "HOLD")
        assert all(name in held.text for name in trail)
        assert "sluice_forwards" not in dict(decode_headers(held.headers))
        assert left(amqp_broker, out) == []
        endings = [run_queue(queue.pk).ending for queue in (back, out)]
        assert endings == [RunEnding.DRAINED] * 2
        assert not OutboxRow.objects.filter(state="PENDING").exists()

    def test_a_message_from_the_topic_is_held_before_it_is_sent_again(
        self, broker: Kafka, amqp_broker: Broker
    ) -> None:
        out, back = self.a_circle(broker, amqp_broker)
        broker.send(back.topic, [{"n": 1}], headers=[("sluice-message-id", b"m1")])
        run_queue(back.pk)
        once_round(broker, out, back)
        held = MessageError.objects.get()
        assert (held.queue_id, held.code, held.state) == (back.pk, "FORWARD_LOOP", "HOLD")
        assert left(amqp_broker, out) == []
        assert len(broker.read_all(back.topic)) == 2


def once_round(broker: Kafka, out: Queue, back: Queue) -> None:
    run_queue(out.pk)
    provider = back.provider_id
    run_relay(provider, stop=lambda: not OutboxRow.objects.filter(state="PENDING").exists())
    broker.await_decided(back.topic)
    run_queue(back.pk)
