"""The sample as people set it up: planted once by a tester, then brought back on other topics.

To plant it is to fill in two dozen forms, which takes seconds.
"""

import io
from random import Random
from typing import Final

import pytest
from confluent_kafka import TopicCollection
from django.core.management import call_command

from integration.models import Queue, QueuePartition
from sample import names
from tests.support import emptying
from tests.support.builders import topic_uuid
from tests.support.kafka_world import Kafka

SCHEMA: Final = "planted"
# How many partitions the topic of each queue got when it was planted.
_partitions: dict[str, int] = {}


def on_own_topics(patch: pytest.MonkeyPatch) -> None:
    """Let the sample have topics that no other test has written to."""
    suffix = f"{Random().randrange(10**9)}"
    for queue, topic in list(names.TOPICS.items()):
        patch.setitem(names.TOPICS, queue, f"{topic}.{suffix}")
    patch.setenv("SLUICE_ADMIN_PASSWORD", "only-for-tests")


def seeded(*options: str) -> str:
    out = io.StringIO()
    call_command("devstack_seed", *options, stdout=out)
    return out.getvalue()


def plant(kafka: Kafka) -> None:
    """As `make run` sets it up; what is done here, and not by it, is to make the topics anew."""
    if _partitions:
        emptying.bring_back(SCHEMA)
        _make_topics(kafka)
        return
    seeded()
    emptying.remember(SCHEMA)
    described = kafka.admin.describe_topics(TopicCollection(list(names.TOPICS.values())))
    for queue, topic in names.TOPICS.items():
        _partitions[queue] = len(described[topic].result(10).partitions)


def _make_topics(kafka: Kafka) -> None:
    for queue, topic in names.TOPICS.items():
        kafka.topic(_partitions[queue], topic)
        Queue.objects.filter(name=queue).update(topic=topic)
        places = QueuePartition.objects.filter(queue__name=queue)
        places.update(topic_uuid=topic_uuid(kafka, topic))
