"""Outbound queues with an endpoint, and partners that remember what they got."""

import json
import uuid
from typing import Any

from django.utils import timezone

from integration.delivery.report import Report
from integration.endpoints.port import Deliverer
from integration.models import Delivery, Endpoint, ExternalSystem, Queue
from integration.runs.queues import run_queue
from tests.support.builders import a_queue
from tests.support.kafka_world import Kafka
from tests.support.rows import TOPIC_UUID


def an_endpoint(**fields: Any) -> Endpoint:
    """An endpoint of the system `partner`; the tests bring the deliverer themselves."""
    system, _ = ExternalSystem.objects.get_or_create(name="partner")
    defaults: dict[str, Any] = {
        "name": f"e-{uuid.uuid4().hex[:10]}",
        "system": system,
        "endpoint_type": "python",
        "properties": {},
    }
    return Endpoint.objects.create(**(defaults | fields))


def an_outbound_queue(kafka: Kafka, kind: str = "sequential", **fields: Any) -> Queue:
    """A queue that sends to an endpoint of its own, which does not drop repeats."""
    endpoint = fields.pop("endpoint", None) or an_endpoint()
    defaults = {"direction": "outbound", "default_service": None, "endpoint": endpoint}
    return a_queue(kafka, kind, **(defaults | fields))


def a_call(queue: Queue, offset: int, **fields: Any) -> Delivery:
    """A call of a queue's message that arrived, in the place that `rows.a_place` makes."""
    known: dict[str, Any] = {
        "endpoint": queue.endpoint,
        "topic_uuid": TOPIC_UUID,
        "message_id": f"m{offset}",
        "state": "DELIVERED",
        "epoch": 3,
        "partition": 0,
    }
    return Delivery.objects.create(
        queue=queue,
        offset=offset,
        started_at=timezone.now(),
        **(known | fields),
    )


def post(kafka: Kafka, queue: Queue, count: int, *, first: int = 0, keys: int = 0) -> None:
    """Write messages 0, 1, 2 … as the relay does: each with an id and an interface."""
    for n in range(first, first + count):
        headers = [("sluice-message-id", f"m{n}".encode()), ("sluice-interface", b"ORDERS")]
        key = f"k{n % keys}".encode() if keys else None
        value = json.dumps({"n": n}).encode()
        kafka.producer.produce(queue.topic, value, key=key, headers=headers)
        kafka.producer.poll(0)
    assert kafka.producer.flush(20) == 0


def send(queue: Queue, deliverer: Deliverer, **options: Any) -> Report:
    """One run of the queue, its endpoint played by `deliverer`."""
    return run_queue(queue.pk, endpoints=lambda _: deliverer, **options)


def numbers(ids: list[str]) -> list[int]:
    """The n of message ids that `post` wrote."""
    return [int(id_.removeprefix("m")) for id_ in ids]
