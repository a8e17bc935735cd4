"""Factories that take part in transactions over several resources, for tests."""

import json

from integration.models import ConnectionFactory
from tests.support.builders import a_provider
from tests.support.kafka_world import Kafka

LOGS = ("topic", "database")


def a_factory(broker: Kafka, xa: str = "topic", **fields) -> ConnectionFactory:
    values = {
        "name": "payments",
        "provider": a_provider(broker.bootstrap),
        "xa": xa,
        "xa_side_topic": broker.topic(partitions=2),
    }
    if xa == "topic":
        values["xa_log_topic"] = broker.topic(**{"cleanup.policy": "compact"})
    factory = ConnectionFactory(**(values | fields))
    factory.full_clean()
    factory.save()
    return factory


def read(broker: Kafka, topic: str) -> list[object]:
    return [json.loads(record.value()) for record in broker.read_all(topic)]
