"""Questions and orders to a cluster outside the road: for registration, the console, doctor."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclOperation
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.admin._listoffsets import OffsetSpec
from confluent_kafka.cimpl import NewTopic

from integration import durations
from integration.kafka.client import Connection, TalkingAdmin, new_admin
from integration.kafka.errors import (
    BrokerRefusedError,
    BrokerUnreachableError,
    ProviderUnusableError,
    TopicRefusedError,
    TopicUnknownError,
)
from integration.kafka.facts import (
    ANSWER_SECONDS,
    FactsReader,
    TopicGoneError,
    answer,
    ask_offsets,
    asking,
    collect_offsets,
    from_coordinator,
)
from integration.kafka.troubles import error_of, sentence, unreachable
from integration.models.provider import Provider
from integration.policy.rescue import ENDLESS_SECONDS
from integration.values import TopicFacts

# Kafka's own word for "as the broker is configured".
BROKERS_CHOICE: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDescription:
    """A topic with the settings that matter here.

    `retention_ms` and `retention_bytes` are None when unlimited; `may_write` is None when the
    cluster does not tell.
    """

    name: str
    facts: TopicFacts
    replication: int
    retention_ms: int | None
    retention_bytes: int | None
    is_compacted: bool
    deletes_old: bool
    min_insync_replicas: int
    max_message_bytes: int
    may_write: bool | None

    @property
    def partitions(self) -> int:
        return self.facts.partitions

    @property
    def topic_uuid(self) -> str:
        return self.facts.topic_uuid


@dataclass(frozen=True, slots=True)
class Reach:
    """The reachability of a cluster, and the sentence to show; `next_step` where there is none."""

    ok: bool
    text: str
    next_step: str = ""
    brokers: int = 0
    cluster_id: str = ""


def reachable(provider: Provider) -> Reach:
    """Ask the cluster who it is. Never raises for what is wrong with the provider."""
    try:
        with asking(provider) as (to, admin):
            cluster = answer(admin.describe_cluster(request_timeout=ANSWER_SECONDS), to.name)
    except (BrokerUnreachableError, ProviderUnusableError) as e:
        return Reach(ok=False, text=f"{e.code}: {e.sentence}", next_step=e.next_step)
    brokers = len(cluster.nodes)
    noun = "broker" if brokers == 1 else "brokers"
    text = f"{provider.name} answers: {brokers} {noun}, cluster {cluster.cluster_id}."
    return Reach(ok=True, text=text, brokers=brokers, cluster_id=cluster.cluster_id)


def describe(provider: Provider, topic: str) -> TopicDescription:
    """Everything about one topic.

    Raises TopicUnknownError, BrokerUnreachableError, ProviderUnusableError.
    """
    with asking(provider) as (to, admin):
        try:
            return _describe(admin, to, topic)
        except TopicGoneError:
            raise TopicUnknownError(to.name, topic) from None


def _describe(admin: TalkingAdmin, to: Connection, topic: str) -> TopicDescription:
    futures = admin.describe_topics(
        TopicCollection([topic]),
        include_authorized_operations=True,
        request_timeout=ANSWER_SECONDS,
    )
    settings = _settings(admin, to, topic)
    described = answer(futures[topic], to.name)
    facts = FactsReader(admin, to.name, topic).read()
    if facts is None:
        raise TopicGoneError
    allowed = described.authorized_operations
    policy = settings["cleanup.policy"].split(",")
    return TopicDescription(
        name=topic,
        facts=facts,
        replication=min(len(partition.replicas) for partition in described.partitions),
        retention_ms=_limit(settings["retention.ms"], ENDLESS_SECONDS * 1_000),
        retention_bytes=_limit(settings["retention.bytes"]),
        is_compacted="compact" in policy,
        deletes_old="delete" in policy,
        min_insync_replicas=int(settings["min.insync.replicas"]),
        max_message_bytes=int(settings["max.message.bytes"]),
        may_write=None if allowed is None else AclOperation.WRITE in allowed,
    )


def _settings(admin: AdminClient, to: Connection, topic: str) -> Mapping[str, str]:
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    futures = admin.describe_configs([resource], request_timeout=ANSWER_SECONDS)
    entries = answer(futures[resource], to.name)
    return {name: str(entry.value) for name, entry in entries.items()}


def _limit(text: str, most: int | None = None) -> int | None:
    """Kafka writes "without limit" as -1; what is beyond `most` is meant so, too."""
    number = int(text)
    return None if number < 0 or (most is not None and number > most) else number


def in_words(topic: TopicDescription) -> str:
    """The settings that matter here, and what of them a person should know."""
    copies = "1 copy" if topic.replication == 1 else f"{topic.replication} copies"
    time = "without limit"
    if topic.retention_ms is not None:
        time = f"for {durations.written(topic.retention_ms / 1_000)}"
    words = (
        f"{copies}, min.insync.replicas={topic.min_insync_replicas}, messages of at most "
        f"{topic.max_message_bytes:,} bytes, kept {time}."
    )
    return " ".join([words, *remarks(topic)])


def remarks(topic: TopicDescription) -> list[str]:
    """List what a person should know about a topic although it does not forbid the queue."""
    sentences = []
    if topic.replication < 2:
        sentences.append(f"{topic.name} has one copy only: a lost disk loses its messages.")
    elif topic.min_insync_replicas < 2:
        sentences.append(
            f"{topic.name} accepts a message when one copy is written (min.insync.replicas=1): "
            "a lost disk can lose the newest messages."
        )
    if topic.retention_bytes is not None:
        sentences.append(
            f"{topic.name} also deletes by size (retention.bytes={topic.retention_bytes}): "
            "messages may expire sooner than its retention time says."
        )
    if topic.is_compacted:
        sentences.append(f"{topic.name} is compacted: only the newest message of a key is kept.")
    return sentences


def topic_facts(provider: Provider, topic: str) -> TopicFacts | None:
    """UUID and watermarks now; None when the topic is not there. Raises BrokerUnreachableError."""
    with asking(provider) as (to, admin):
        return FactsReader(admin, to.name, topic).read()


def topics(provider: Provider) -> dict[str, int]:
    """Map each topic that is not Kafka's own, by name, to how many partitions it has.

    Raises BrokerUnreachableError.
    """
    with asking(provider) as (to, admin):
        try:
            listed = admin.list_topics(timeout=ANSWER_SECONDS).topics
        except KafkaException as e:
            raise unreachable(to.name, e) from e
    return {n: len(listed[n].partitions) for n in sorted(listed) if not n.startswith("__")}


def create_topic(
    provider: Provider,
    topic: str,
    *,
    partitions: int = BROKERS_CHOICE,
    settings: Mapping[str, str] | None = None,
) -> bool:
    """Create a topic with the broker's own replication; False when it exists already.

    Raises TopicRefusedError, BrokerUnreachableError.
    """
    new = NewTopic(topic, partitions, BROKERS_CHOICE, config=dict(settings or {}))
    with asking(provider) as (to, admin):
        return _create(admin, to, new)


def delete_topic(provider: Provider, topic: str) -> bool:
    """Delete a topic with all its messages, and for good; False when there is none.

    Raises BrokerUnreachableError, BrokerRefusedError.
    """
    with asking(provider) as (to, admin):
        futures = admin.delete_topics([topic], request_timeout=ANSWER_SECONDS)
        try:
            answer(futures[topic], to.name)
        except TopicGoneError:
            return False
    return True


def ensure_topic(to: Connection, topic: str) -> None:
    """Create a topic with one partition where it is missing.

    Raises TopicRefusedError, BrokerUnreachableError.
    """
    with new_admin(to) as admin:
        if FactsReader(admin, to.name, topic).read() is None:
            _create(admin, to, NewTopic(topic, 1, BROKERS_CHOICE))


def _create(admin: AdminClient, to: Connection, new: NewTopic) -> bool:
    futures, topic = admin.create_topics([new], request_timeout=ANSWER_SECONDS), new.topic
    try:
        answer(futures[topic], to.name)
    except BrokerRefusedError as e:
        raise TopicRefusedError(topic, e.sentence) from e
    except TopicGoneError as e:
        # The name itself is refused: the library counts it among the unknown topics.
        raise TopicRefusedError(topic, str(e.__cause__)) from e
    except BrokerUnreachableError as e:
        error = error_of(e.__cause__)
        if error is None or error.code() == KafkaError.REQUEST_TIMED_OUT or error.code() < 0:
            raise
        if error.code() == KafkaError.TOPIC_ALREADY_EXISTS:
            return False
        raise TopicRefusedError(topic, sentence(error)) from e
    return True


def offsets_at(provider: Provider, facts: TopicFacts, topic: str, at: datetime) -> dict[int, int]:
    """Map partitions to the first offset written at `at` or later; else to the stable end.

    Raises TopicUnknownError, BrokerUnreachableError, ProviderUnusableError.
    """
    milliseconds = int(at.timestamp() * 1_000)
    spec = OffsetSpec.for_timestamp(milliseconds)
    with asking(provider) as (to, admin):
        try:
            futures = ask_offsets(admin, topic, dict.fromkeys(facts.high, spec))
            offsets = collect_offsets(futures, to.name)
        except TopicGoneError:
            raise TopicUnknownError(to.name, topic) from None
    return {p: facts.high[p] if offset < 0 else offset for p, offset in offsets.items()}


def group_offsets(
    provider: Provider, group: str, topic: str, partitions: Iterable[int]
) -> dict[int, int]:
    """Read a group's committed offsets, by partition; those without an offset are missing."""
    places = [TopicPartition(topic, partition) for partition in partitions]
    request = ConsumerGroupTopicPartitions(group, places)
    with asking(provider) as (to, admin):
        # librdkafka 2.16 ends the whole process where a coordinator that is only just coming is
        # asked for offsets by a client that is no consumer; to this question it answers.
        answer(
            from_coordinator(
                lambda: admin.describe_consumer_groups([group], request_timeout=ANSWER_SECONDS)[
                    group
                ]
            ),
            to.name,
        )
        offsets = admin.list_consumer_group_offsets(
            [request], require_stable=True, request_timeout=ANSWER_SECONDS
        )
        committed = answer(offsets[group], to.name).topic_partitions
    return {place.partition: place.offset for place in committed if place.offset >= 0}
