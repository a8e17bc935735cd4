"""The roads between a JMS broker and Kafka, each with what it keeps, and with wires that break.

What is tested: queues and topics of a real broker, both ways, with what stands in the tables of
docs/adapters.md: headers, selector, transformer, subscriptions. How: one broker for all; where a
wire breaks, it does so at a step of the run, between us and that broker.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.utils import timezone
from proton import Message
from proton.reactor import DurableSubscription

from devstack.artemis import USER
from integration.delivery.report import RunEnding
from integration.delivery.steps import Step
from integration.endpoints.port import OutboundMessage
from integration.endpoints.registry import endpoint_function
from integration.handlers import Applied
from integration.models import (
    JmsReceipt,
    MessageError,
    MessageTrack,
    OutboxRow,
    Queue,
    QueuePartition,
)
from integration.runs.queues import run_queue
from integration.runs.relay import run_relay
from tests.support import amqp_client
from tests.support.amqp import Broker
from tests.support.at_step import AtStep
from tests.support.builders import a_provider
from tests.support.jms import a_jms_provider, a_jms_queue, left, put
from tests.support.kafka_world import Kafka
from tests.support.partners import an_endpoint, an_outbound_queue, post
from tests.support.swallowing_proxy import SwallowingProxy
from tests.support.world.models import Effect

pytestmark = [pytest.mark.servers, pytest.mark.django_db(transaction=True)]
MESSAGES, BATCH = 20, 5
# AMQP's frame by which a broker detaches its first link for good, with a reason.
REASON = b"\x00\x53\x1d\xc0\x1a\x01\xa3\x17amqp:link:detach-forced"
WORDS = b"\x00\x53\x16\xc0" + bytes([len(REASON) + 3, 3]) + b"\x43\x41" + REASON
DETACH = (len(WORDS) + 8).to_bytes(4) + b"\x02\x00\x00\x00" + WORDS


@pytest.fixture
def broker(servers) -> Kafka:
    return Kafka(servers.kafka_bootstrap)


def to_kafka(kafka: Kafka, jms: Broker, **fields: Any) -> tuple[Queue, str]:
    """A queue from JMS to a topic of Kafka, and the topic; `made` is how its records are made."""
    provider, topic = a_provider(kafka.bootstrap), kafka.topic()
    stored = {"provider": provider.name, "topic": topic, **fields.pop("made", {})}
    endpoint = an_endpoint(endpoint_type="kafka", properties=stored)
    known = {"direction": "outbound", "endpoint": endpoint, "default_service": None}
    return a_jms_queue(jms, "continuous", **known, **fields), topic


def to_jms(kafka: Kafka, jms: Broker, **properties: Any) -> tuple[Queue, str]:
    """A queue from Kafka to JMS, and the address."""
    known = jms.properties(at_once=10, **properties)
    endpoint = an_endpoint(
        endpoint_type="amqp",
        idempotent=True,
        properties=known,
        secrets=json.dumps({"password": jms.server.password}),
    )
    queue = an_outbound_queue(kafka, "continuous", endpoint=endpoint, stay_seconds=0.1)
    return queue, known["address"]


def relayed() -> None:
    [provider] = set(OutboxRow.objects.values_list("provider_id", flat=True))
    run_relay(provider, stop=lambda: not OutboxRow.objects.filter(state="PENDING").exists())


def applied() -> list[int]:
    return list(Effect.objects.order_by("id").values_list("n", flat=True))


class TestToATopicOfJms:
    @staticmethod
    def subscribed(jms: Broker, address: str, name: str) -> list[str]:
        """The ids that a durable subscriber gets now; it stays subscribed when it is away."""
        login = USER, jms.server.password
        with amqp_client.connected(jms.port, login, container=name) as connection:
            options = [DurableSubscription(), amqp_client.ATopic()]
            receiver = connection.create_receiver(address, credit=0, name=name, options=options)
            ids = [str(one.id) for one in amqp_client.all_there(connection, receiver)]
            for _ in ids:
                receiver.accept()
            # Closed it would be unsubscribed.
            receiver.link.detach()
        return ids

    def test_each_durable_subscriber_gets_each_message_once(
        self, broker: Kafka, amqp_broker: Broker
    ) -> None:
        queue, address = to_jms(broker, amqp_broker, address_kind="topic")
        for name in ("first", "second"):
            assert self.subscribed(amqp_broker, address, name) == []
        post(broker, queue, MESSAGES)
        assert run_queue(queue.pk).ending is RunEnding.DRAINED
        expected = [f"m{n}" for n in range(MESSAGES)]
        for name in ("first", "second"):
            assert self.subscribed(amqp_broker, address, name) == expected
            assert self.subscribed(amqp_broker, address, name) == []


class TestToKafka:
    def test_a_topic_is_forwarded_by_its_durable_subscription(
        self, broker: Kafka, amqp_broker: Broker
    ) -> None:
        queue, topic = to_kafka(broker, amqp_broker, subscription="sluice", batch_size=BATCH)
        assert run_queue(queue.pk).ending is RunEnding.DRAINED
        # What comes while nobody reads, and the broker is started anew, waits for us.
        put(amqp_broker, queue, [{"n": n} for n in range(MESSAGES)], to_topic=True)
        amqp_broker.kill()
        amqp_broker.server.start()
        assert run_queue(queue.pk).ending is RunEnding.DRAINED
        relayed()
        found = [json.loads(one.value())["n"] for one in broker.read_all(topic)]
        assert found == list(range(MESSAGES))

    def test_a_selector_chooses_and_paths_make_the_record(
        self, broker: Kafka, amqp_broker: Broker
    ) -> None:
        made = {
            "content": "fields",
            "fields": {"number": "{$.order.number}", "none": "{$.x}"},
            "key_from": "template",
            "key": "{$.order.site}",
        }
        queue, topic = to_kafka(broker, amqp_broker, made=made, selector="site = 'BEDFORD'")
        order = {"order": {"number": "P-1", "site": "BEDFORD"}}
        put(amqp_broker, queue, [order], properties={"site": "BEDFORD"})
        put(amqp_broker, queue, [order], first=1, properties={"site": "NASHUA"})
        put(amqp_broker, queue, [{"n": 1}], first=2, properties={"site": "BEDFORD"})
        run_queue(queue.pk)
        relayed()
        [record] = broker.read_all(topic)
        assert json.loads(record.value()) == {"number": "P-1", "none": None}
        assert record.key() == b"BEDFORD"
        assert dict(record.headers())["sluice-message-id"] == b"m0"
        assert left(amqp_broker, queue) == ["m1"]
        held = MessageError.objects.get()
        assert (held.message_id, held.code) == ("m2", "TEMPLATE_FIELD_MISSING")

    def test_a_function_of_ours_makes_the_record_or_none(
        self, broker: Kafka, amqp_broker: Broker
    ) -> None:
        made = {"content": "function", "function": "tests.from_jms"}
        queue, topic = to_kafka(broker, amqp_broker, made=made)
        put(amqp_broker, queue, [{"n": 0}], subject="ORDER", properties={"site": "BEDFORD"})
        put(amqp_broker, queue, [{"n": 1}], first=1, subject="NOTE")
        run_queue(queue.pk)
        relayed()
        [record] = broker.read_all(topic)
        assert json.loads(record.value()) == {"id": "m0", "site": "BEDFORD"}
        assert not MessageError.objects.exists()
        ends = MessageTrack.objects.order_by("message_id").values_list("message_id", "ended")
        assert list(ends) == [("m0", "DELIVERED"), ("m1", "APPLIED")]

    def test_headers_of_jms_are_those_of_the_record_and_come_back(
        self, broker: Kafka, amqp_broker: Broker
    ) -> None:
        queue, topic = to_kafka(broker, amqp_broker)
        sent = {
            "address": queue.topic,
            "creation_time": 1_700_000_000.5,
            "expiry_time": 4_000_000_000.25,
            "group_id": "g",
            "group_sequence": 3,
            "user_id": b"anna",
            "correlation_id": "c",
            "reply_to": "answers",
            "subject": "ORDER",
            "priority": 7,
        }
        data = bytes(Message(id="m0", durable=True, body="{}", **sent).encode())
        login = USER, amqp_broker.server.password
        amqp_client.put_raw(amqp_broker.port, login, queue.topic, data)
        run_queue(queue.pk)
        relayed()
        [record] = broker.read_all(topic)
        headers = {name: value.decode() for name, value in record.headers()}
        expected = {
            "JMSMessageID": "m0",
            "JMSCorrelationID": "c",
            "JMSReplyTo": "answers",
            "JMSDestination": queue.topic,
            "JMSType": "ORDER",
            "JMSTimestamp": "1700000000500",
            "JMSExpiration": "4000000000250",
            "JMSPriority": "7",
            "JMSXGroupID": "g",
            "JMSXGroupSeq": "3",
            "JMSXUserID": "anna",
        }
        assert headers | expected == headers
        # None of them is a property, so that none has a type beside it.
        assert "jms-types" not in headers
        assert record.key() == b"g"

        back, address = to_jms(broker, amqp_broker, restores=True)
        broker.send(back.topic, [record.value()], key=record.key(), headers=record.headers())
        run_queue(back.pk)
        [message] = amqp_broker.received(address)
        given_back = {name: getattr(message, name) for name in sent.keys() & GIVEN_BACK}
        assert given_back == {name: sent[name] for name in GIVEN_BACK}


GIVEN_BACK = {
    *("group_id", "group_sequence", "user_id", "correlation_id", "reply_to", "subject"),
    "priority",
}


@endpoint_function("tests.from_jms")
def from_jms(message: OutboundMessage) -> object:
    """Forwards orders, with a property of theirs."""
    if message.headers["JMSType"] != "ORDER":
        return Applied()
    return {"id": message.message_id, "site": message.headers["site"]}


class TestAWireThatBreaksWhileItIsReadFrom:
    @pytest.fixture
    def wire(self, amqp_broker: Broker) -> Iterator[SwallowingProxy]:
        proxy = SwallowingProxy(amqp_broker.port)
        yield proxy
        proxy.close()

    @pytest.mark.parametrize("kind", ["sequential", "continuous"])
    @pytest.mark.parametrize("step", [Step.FETCHED, Step.HANDLED, Step.COMMITTED])
    @pytest.mark.parametrize("breaks", ["cut", "detached"])
    def test_nothing_is_lost_or_doubled(
        self,
        servers: Any,
        amqp_broker: Broker,
        wire: SwallowingProxy,
        breaks: str,
        step: Step,
        kind: str,
    ) -> None:
        provider = a_jms_provider(amqp_broker, bootstrap_servers=f"127.0.0.1:{wire.port}")
        queue = a_jms_queue(amqp_broker, kind, provider=provider, batch_size=BATCH)
        put(amqp_broker, queue, [{"n": n, "do": "ok"} for n in range(MESSAGES)])
        broken: list[str] = []

        def break_it() -> None:
            wire.cut() if breaks == "cut" else wire.say(DETACH)
            broken.append(breaks)

        reports = [run_queue(queue.pk, observer=AtStep(step, 2, break_it))]
        while reports[-1].ending is RunEnding.OUTAGE:
            QueuePartition.objects.update(resume_at=timezone.now())
            reports.append(run_queue(queue.pk))
        assert reports[-1].ending is RunEnding.DRAINED, reports
        assert (broken, wire.connections > 1) == ([breaks], True)
        assert applied() == list(range(MESSAGES))
        assert QueuePartition.objects.get(queue=queue).next_offset == MESSAGES
        assert left(amqp_broker, queue) == []
        # Of the batch whose accept had no answer any more; whether it counted nobody knows.
        assert JmsReceipt.objects.count() <= 2 * BATCH
        assert not MessageError.objects.exists()
