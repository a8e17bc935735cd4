"""Topics that take no record now: a partition has no leader, or too few copies of it are there."""

from collections.abc import Iterable
from typing import Any, Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource

from integration.kafka.client import Connection, new_admin
from integration.kafka.errors import BrokerUnreachableError
from integration.kafka.facts import ANSWER_SECONDS, TopicGoneError, answer
from integration.kafka.troubles import unreachable

LEAST: Final = "min.insync.replicas"


def ailing(to: Connection, topics: Iterable[str]) -> dict[str, str]:
    """Why each of these topics takes no record; those that do are left out, unknown ones too.

    Raises BrokerUnreachableError, ProviderUnusableError.
    """
    found: dict[str, str] = {}
    with new_admin(to) as admin:
        for topic in sorted(topics):
            try:
                partitions = admin.list_topics(topic, ANSWER_SECONDS).topics[topic].partitions
            except KafkaException as e:
                raise unreachable(to.name, e) from e
            why = _why(admin, to, topic, partitions.values())
            if why:
                found[topic] = why
    return found


def _why(admin: AdminClient, to: Connection, topic: str, partitions: Iterable[Any]) -> str:
    short = []
    for partition in partitions:
        if partition.leader < 0:
            return f"no broker leads its partition {partition.id}"
        if len(partition.isrs) < len(partition.replicas):
            short.append(partition)
    # Asked only then: it takes a right that writing does not.
    least = _least(admin, to, topic) if short else 0
    for partition in short:
        if len(partition.isrs) < min(least, len(partition.replicas)):
            there = f"{len(partition.isrs)} of {len(partition.replicas)} copies"
            return f"its partition {partition.id} has {there} in sync, and needs {least} ({LEAST})"
    return ""


def _least(admin: AdminClient, to: Connection, topic: str) -> int:
    """So many copies have to be in sync; 0 where the cluster does not tell."""
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    futures = admin.describe_configs([resource], request_timeout=ANSWER_SECONDS)
    try:
        settings = answer(futures[resource], to.name)
    except (BrokerUnreachableError, TopicGoneError):
        return 0
    return int(str(settings[LEAST].value))
