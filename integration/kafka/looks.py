"""One look at many topics of a cluster: identity, ends and retention in five requests."""

from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from confluent_kafka import TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource

from integration.kafka.client import Connection
from integration.kafka.errors import BrokerUnreachableError
from integration.kafka.facts import (
    ANSWER_SECONDS,
    EARLIEST,
    LATEST,
    Offsets,
    TopicGoneError,
    answer,
    ask_places,
    asking,
    collect_offsets,
)
from integration.kafka.troubles import MOVING, has_code
from integration.models.provider import Provider
from integration.policy.rescue import ENDLESS_SECONDS
from integration.values import TopicFacts

Kept = tuple[int | None, int | None]
"""Seconds and bytes that a topic keeps; None where there is no limit, or none is told."""


@dataclass(frozen=True, slots=True)
class TopicLook:
    """A topic now. `retention_seconds` is None where it keeps without limit or does not tell.

    So is `retention_bytes`, which is what it keeps of each partition.

    `ends`, by partition, is where the log ends: behind the high watermark of `facts`, which is the
    last stable offset, lies what belongs to open transactions or comes after one.
    """

    facts: TopicFacts
    retention_seconds: int | None
    ends: Mapping[int, int]
    retention_bytes: int | None = None


def look(provider: Provider, topics: Iterable[str]) -> dict[str, TopicLook | None]:
    """Every topic that could be looked at; None for one that is not there.

    A topic that is just moving between brokers is left out: the next look finds it. Raises
    BrokerUnreachableError (BrokerRefusedError among them) and ProviderUnusableError.
    """
    names = sorted(set(topics))
    if not names:
        return {}
    with asking(provider) as (to, admin):
        described = _described(admin, to, names)
        there = [topic for topic, facts in described.items() if facts is not None]
        retention = _retention(admin, to, there)
        marks = _ask_marks(admin, {topic: described[topic] for topic in there})
        looks: dict[str, TopicLook | None] = dict.fromkeys(described.keys() - there)
        for topic in there:
            result = _facts(to, described[topic], marks)
            if result is not None:
                facts, ends = result
                seconds, size = retention.get(topic, (None, None))
                looks[topic] = TopicLook(facts, seconds, ends, size)
        return looks


def longest_transaction(provider: Provider) -> float | None:
    """Return how many seconds the brokers let a transaction last; None where they do not tell.

    Reading a broker's settings needs a right that nothing else here does. Raises
    BrokerUnreachableError (BrokerRefusedError among them) and ProviderUnusableError.
    """
    with asking(provider) as (to, admin):
        cluster = answer(admin.describe_cluster(request_timeout=ANSWER_SECONDS), to.name)
        # Some clusters name no controller; each broker has the same setting.
        broker = cluster.controller or cluster.nodes[0]
        resource = ConfigResource(ConfigResource.Type.BROKER, str(broker.id))
        futures = admin.describe_configs([resource], request_timeout=ANSWER_SECONDS)
        try:
            settings: Mapping[str, Any] = answer(futures[resource], to.name)
        except (BrokerUnreachableError, TopicGoneError):
            return None
    return longest_of(settings)


def longest_of(settings: Mapping[str, Any]) -> float | None:
    """The same out of a broker's settings; some that speak Kafka's protocol have no such one."""
    setting = settings.get("transaction.max.timeout.ms")
    return None if setting is None or setting.value is None else int(setting.value) / 1_000


def _described(admin: AdminClient, to: Connection, topics: list[str]) -> dict[str, Any]:
    futures = admin.describe_topics(TopicCollection(topics), request_timeout=ANSWER_SECONDS)
    described: dict[str, Any] = {}
    for topic in topics:
        try:
            described[topic] = answer(futures[topic], to.name)
        except TopicGoneError:
            described[topic] = None
        except BrokerUnreachableError as e:
            if not has_code(e, MOVING):
                raise
    return described


def _ask_marks(admin: AdminClient, described: Mapping[str, Any]) -> list[dict[Any, Any]]:
    """Ask for the marks of all partitions of all topics at once: three requests a broker."""
    places = [(topic, part.id) for topic, each in described.items() for part in each.partitions]
    # The log's end first: what is written between the questions is not taken for a transaction.
    return [
        ask_places(admin, dict.fromkeys(places, LATEST), stable=False),
        ask_places(admin, dict.fromkeys(places, EARLIEST)),
        ask_places(admin, dict.fromkeys(places, LATEST)),
    ]


def _facts(
    to: Connection, described: Any, marks: list[dict[Any, Any]]
) -> tuple[TopicFacts, Offsets] | None:
    places = [TopicPartition(described.name, part.id) for part in described.partitions]
    try:
        ends, low, high = (
            collect_offsets({place: futures[place] for place in places}, to.name)
            for futures in marks
        )
    except TopicGoneError:
        return None
    except BrokerUnreachableError as e:
        if not has_code(e, MOVING):
            raise
        return None
    return TopicFacts(str(described.topic_id), low, high), ends


def _retention(admin: AdminClient, to: Connection, topics: list[str]) -> dict[str, Kept]:
    """Map topics to the seconds and bytes they keep."""
    if not topics:
        return {}
    resources = {topic: ConfigResource(ConfigResource.Type.TOPIC, topic) for topic in topics}
    futures = admin.describe_configs(list(resources.values()), request_timeout=ANSWER_SECONDS)
    return {topic: _kept(futures[key], to) for topic, key in resources.items()}


def _kept(future: Future[Any], to: Connection) -> Kept:
    """Reading settings needs a right that consuming does not: without it nothing is known."""
    try:
        settings: Mapping[str, Any] = answer(future, to.name)
    except (BrokerUnreachableError, TopicGoneError):
        return None, None
    if "delete" not in str(settings["cleanup.policy"].value).split(","):
        return None, None
    milliseconds = int(str(settings["retention.ms"].value))
    size = int(str(settings["retention.bytes"].value))
    is_endless = milliseconds < 0 or milliseconds > ENDLESS_SECONDS * 1_000
    seconds = None if is_endless else max(1, milliseconds // 1_000)
    return seconds, size if size >= 0 else None
