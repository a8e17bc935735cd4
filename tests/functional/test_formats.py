"""Avro, JSON Schema and Protobuf from their own serializers, by a real registry and broker."""

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from django.test import Client
from django.urls import reverse
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from devstack.registry import Registry
from integration.handlers import publish
from integration.models import MessageError, MessageTrack, OutboxRow, Provider, Queue
from integration.registries import encoding
from integration.registries.known import forget_everything
from tests.support.avro import ORDER
from tests.support.builders import a_brief_queue, a_provider
from tests.support.channels import a_channel
from tests.support.flows import drain, effects, held, standing
from tests.support.kafka_world import Kafka
from tests.support.rows import a_person

pytestmark = [pytest.mark.servers, pytest.mark.django_db(transaction=True)]

JSON_ORDER = {
    "title": "Order",
    "type": "object",
    "required": ["n"],
    "properties": {"n": {"type": "integer"}, "do": {"type": "string"}},
}


@pytest.fixture(autouse=True)
def anew() -> Iterator[None]:
    """As a new process: nothing is known of any registry."""
    forget_everything()
    encoding.forget_subjects()
    yield
    forget_everything()


@pytest.fixture
def broker(servers) -> Kafka:
    return Kafka(servers.kafka_bootstrap)


@pytest.fixture
def client_of(schema_registry: Registry) -> Iterator[SchemaRegistryClient]:
    client = SchemaRegistryClient({"url": schema_registry.url})
    yield client
    client._rest_client.session.close()


def a_queue(broker: Kafka, registry: Registry, kind: str = "continuous") -> Queue:
    queue = a_brief_queue(broker, kind)
    Provider.objects.filter(pk=queue.provider_id).update(registry_url=registry.url)
    return Queue.objects.select_related("provider").get(pk=queue.pk)


def context(queue: Queue) -> SerializationContext:
    return SerializationContext(queue.topic, MessageField.VALUE)


def an_order_message() -> type:
    """The class of a Protobuf message, as a generated module has it."""
    file = FileDescriptorProto(name="order.proto", package="com.example", syntax="proto3")
    message = file.message_type.add(name="Order")
    message.field.add(name="n", number=1, type=5, label=1)
    message.field.add(name="do", number=2, type=9, label=1)
    message.field.add(name="lines", number=3, type=9, label=3)
    pool = DescriptorPool()
    pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName("com.example.Order"))


def by_avro(client: SchemaRegistryClient, queue: Queue) -> Callable[[dict[str, Any]], bytes]:
    write = AvroSerializer(client, json.dumps(ORDER))
    return lambda document: write({"do": "ok", **document}, context(queue))


def by_json(client: SchemaRegistryClient, queue: Queue) -> Callable[[dict[str, Any]], bytes]:
    write = JSONSerializer(json.dumps(JSON_ORDER), client)
    return lambda document: write(document, context(queue))


def by_protobuf(client: SchemaRegistryClient, queue: Queue) -> Callable[[dict[str, Any]], bytes]:
    kind = an_order_message()
    write = ProtobufSerializer(kind, client, {"use.deprecated.format": False})
    return lambda document: write(kind(**{"do": "ok", **document}), context(queue))


@pytest.mark.parametrize("serializer", [by_avro, by_json, by_protobuf])
def test_what_a_serializer_writes_is_applied_tracked_and_corrected(
    broker, schema_registry, client_of, serializer
):
    queue = a_queue(broker, schema_registry)
    write = serializer(client_of, queue)
    bad = write({"n": 2, "do": "permanent"})
    broker.send(queue.topic, [write({"n": 1}), {"n": 10}, bad, write({"n": 3})])

    drain(queue)

    assert effects() == [1, 3, 10]
    assert list(held(queue)) == [2]
    assert_is_told(queue, bad)
    error = MessageError.objects.get()
    assert_edits_are_judged(error)
    correct(error, {"n": 2, "do": "ok"})
    error.refresh_from_db()
    assert bytes(error.edited_payload) == write({"n": 2, "do": "ok"})
    assert bytes(error.payload) == bad

    drain(queue)

    assert effects() == [1, 2, 3, 10]
    assert held(queue) == {}
    assert standing(queue)[1:] == ("RUNNING", "")


def assert_is_told(queue: Queue, bad: bytes) -> None:
    """Failure and tracking keep the schema, and the page shows JSON."""
    schema_id = int.from_bytes(bad[1:5], "big")
    tracked = dict(MessageTrack.objects.values_list("offset", "schema_id"))
    assert tracked == {0: schema_id, 1: None, 2: schema_id, 3: schema_id}
    error = MessageError.objects.get()
    assert bytes(error.payload) == bad
    subject = (error.schema_id, error.schema_subject, error.schema_version)
    assert subject == (schema_id, f"{queue.topic}-value", 1)
    shown = somebody().get(reverse("failure", args=[error.pk])).text
    assert "&quot;do&quot;: &quot;permanent&quot;" in shown
    assert f"{queue.topic}-value" in shown


def assert_edits_are_judged(error: MessageError) -> None:
    address = reverse("edit", args=[error.pk])
    page = somebody()
    assert "The message as JSON" in page.get(address).text
    form = {"version": error.version, "text": '{"n": "two"}', "anyway": "1"}
    wrong = page.post(address, form)
    assert wrong.status_code == 422
    assert "SCHEMA_MISFIT" in wrong.text
    error.refresh_from_db()
    assert error.edited_payload is None


def correct(error: MessageError, document: dict[str, Any]) -> None:
    form = {"version": error.version, "text": json.dumps(document), "then": "release"}
    assert somebody().post(reverse("edit", args=[error.pk]), form).status_code == 303


def somebody() -> Client:
    page = Client()
    page.force_login(a_person("Administrators"))
    return page


@pytest.mark.parametrize("kind", ["sequential", "continuous"])
def test_a_message_of_an_unknown_schema_is_held(broker, schema_registry, client_of, kind):
    queue = a_queue(broker, schema_registry, kind)
    write = by_avro(client_of, queue)
    known = write({"n": 1})
    strange = b"\0" + (2**28).to_bytes(4, "big") + known[5:]
    broker.send(queue.topic, [known, strange, write({"n": 3})])

    drain(queue)

    assert held(queue) == {1: "SCHEMA_UNKNOWN"}
    assert bytes(MessageError.objects.get().payload) == strange
    assert effects() == ([1] if kind == "sequential" else [1, 3])


def test_a_channel_writes_by_a_subject_and_a_partner_reads_it(broker, schema_registry, client_of):
    channel = a_channel("ORDERS", "erp", envelope=False, subject_by="topic")
    target = channel.targets.get()
    provider = a_provider(broker.bootstrap)
    Provider.objects.filter(pk=provider.pk).update(registry_url=schema_registry.url)
    topic = f"out-{time.monotonic_ns()}"
    Queue.objects.filter(pk=target.queue_id).update(topic=topic, provider=provider)
    first = client_of.register_schema(f"{topic}-value", Schema(json.dumps(ORDER), "AVRO"))

    publish("ORDERS", {"n": 1})

    value = bytes(OutboxRow.objects.get().value)
    assert int.from_bytes(value[1:5], "big") == first
    read = AvroDeserializer(client_of)
    assert read(value, SerializationContext(topic, MessageField.VALUE)) == {"n": 1, "do": None}
    client_of.set_compatibility(f"{topic}-value", level="BACKWARD")
    shown = somebody().get(reverse("channel-subjects", args=[channel.pk])).text
    assert f"{topic}-value" in shown
    assert "BACKWARD" in shown


def test_the_test_of_a_provider_asks_its_registry(broker, schema_registry):
    provider = a_provider(broker.bootstrap)
    Provider.objects.filter(pk=provider.pk).update(registry_url=schema_registry.url)
    page = somebody()
    shown = page.post(reverse("provider-test", args=[provider.pk])).text
    assert "Ask for its subjects" in shown
    assert "does not answer" not in shown
    Provider.objects.filter(pk=provider.pk).update(registry_url="http://127.0.0.1:1")
    refused = page.post(reverse("provider-test", args=[provider.pk])).text
    assert "does not answer" in refused
    assert "Something is missing" in refused
