"""Topics that cannot be written now: a partition has no leader, or too few copies are in sync."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource

from integration.kafka.client import Connection, new_admin
from integration.kafka.errors import BrokerUnreachableError
from integration.kafka.facts import ANSWER_SECONDS, TopicGoneError, answer
from integration.kafka.troubles import unreachable

LEAST: Final = "min.insync.replicas"
# Of more topics than this all of the cluster are asked for at once: thousands of questions would
# take longer than the relay's lease lasts without a sign of it.
MOST_ASKED: Final = 10
# The answer may be large, and without it the shard cannot go on.
ALL_ANSWER_SECONDS: Final = 30.0


def ailing(to: Connection, topics: Collection[str]) -> dict[str, str]:
    """Why each of these topics cannot be written; those that can be are missing, unknown ones too.

    Raises BrokerUnreachableError, ProviderUnusableError.
    """
    found: dict[str, str] = {}
    short: dict[str, list[Any]] = {}
    with new_admin(to) as admin:
        for topic, partitions in _partitions(admin, to, topics).items():
            leaderless = [partition.id for partition in partitions if partition.leader < 0]
            if leaderless:
                found[topic] = f"no broker leads its partition {leaderless[0]}"
                continue
            lacking = [one for one in partitions if len(one.isrs) < len(one.replicas)]
            if lacking:
                short[topic] = lacking
        # Asked only then: it takes a right that writing does not.
        least = _least(admin, to, short) if short else {}
    for topic, lacking in short.items():
        why = _too_few(lacking, least[topic])
        if why:
            found[topic] = why
    return found


def _partitions(
    admin: AdminClient, to: Connection, topics: Collection[str]
) -> dict[str, list[Any]]:
    """The partitions by topic; what is not there may be missing."""
    try:
        if len(topics) > MOST_ASKED:
            told = admin.list_topics(timeout=ALL_ANSWER_SECONDS).topics
        else:
            told = {one: admin.list_topics(one, ANSWER_SECONDS).topics[one] for one in topics}
    except KafkaException as e:
        raise unreachable(to.name, e) from e
    return {one: list(told[one].partitions.values()) for one in sorted(topics) if one in told}


def _too_few(partitions: Iterable[Any], least: int) -> str:
    for partition in partitions:
        if len(partition.isrs) < min(least, len(partition.replicas)):
            there = f"{len(partition.isrs)} of {len(partition.replicas)} copies"
            return f"its partition {partition.id} has {there} in sync, and needs {least} ({LEAST})"
    return ""


def _least(admin: AdminClient, to: Connection, topics: Collection[str]) -> dict[str, int]:
    """By topic how many copies have to be in sync; 0 where the cluster does not tell."""
    resources = {topic: ConfigResource(ConfigResource.Type.TOPIC, topic) for topic in topics}
    futures = admin.describe_configs(list(resources.values()), request_timeout=ANSWER_SECONDS)
    least = {}
    for topic, resource in resources.items():
        try:
            least[topic] = least_of(answer(futures[resource], to.name))
        except (BrokerUnreachableError, TopicGoneError):
            least[topic] = 0
    return least


def least_of(settings: Mapping[str, Any] | None) -> int:
    """How many copies these settings of a topic ask for; 0 unless they have a whole number."""
    entry = (settings or {}).get(LEAST)
    text = str(getattr(entry, "value", ""))
    return int(text) if text.isdecimal() else 0
