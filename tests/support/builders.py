"""Builders: a queue with everything around it, ready to run."""

import uuid
from typing import Any

from confluent_kafka import TopicCollection

from integration.models import (
    EnterpriseService,
    ExternalSystem,
    Provider,
    Queue,
    QueuePartition,
)
from tests.support.kafka_world import Kafka

INTERFACES = ("OBEY", "OBEY.ALONE", "OBEY.BATCH", "OBEY.MUTE")


def a_provider(bootstrap: str, name: str = "main") -> Provider:
    provider, _ = Provider.objects.update_or_create(
        name=name, defaults={"bootstrap_servers": bootstrap}
    )
    return provider


def some_services() -> None:
    for interface in INTERFACES:
        EnterpriseService.objects.get_or_create(interface=interface)


def topic_uuid(kafka: Kafka, topic: str) -> str:
    described = kafka.admin.describe_topics(TopicCollection([topic]))[topic].result(10)
    return str(described.topic_id)


def partitions_of(kafka: Kafka, queue: Queue, count: int) -> list[QueuePartition]:
    uid = topic_uuid(kafka, queue.topic)
    return [
        QueuePartition.objects.create(queue=queue, partition=p, topic_uuid=uid, next_offset=0)
        for p in range(count)
    ]


def a_queue(kafka: Kafka, kind: str = "continuous", partitions: int = 1, **fields: Any) -> Queue:
    """An inbound queue on a fresh topic, reading from the beginning, default service OBEY."""
    some_services()
    system, _ = ExternalSystem.objects.get_or_create(name="partner")
    defaults: dict[str, Any] = {
        "name": f"q-{uuid.uuid4().hex[:10]}",
        "provider": a_provider(kafka.bootstrap),
        "topic": fields.pop("topic", None) or kafka.topic(partitions),
        "kind": kind,
        "system": system,
        "default_service": EnterpriseService.objects.get(interface="OBEY"),
        "start_from": "beginning",
        "stay_seconds": 0.3,
        "retry_delay_seconds": 0.0,
        "carrier": "row",
    }
    queue = Queue.objects.create(**(defaults | fields))
    partitions_of(kafka, queue, partitions)
    return queue


def a_brief_queue(
    kafka: Kafka, kind: str = "continuous", partitions: int = 1, **fields: Any
) -> Queue:
    """As `a_queue`, but its runs end as soon as nothing waits, and look for overdue rows once."""
    return a_queue(kafka, kind, partitions, **({"stay_seconds": 0.0} | fields))
