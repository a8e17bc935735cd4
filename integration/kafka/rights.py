"""Our rights on a cluster for reading, for writing in transactions, for new topics."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final
from uuid import uuid4

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from integration.kafka import grants
from integration.kafka.client import Connection, new_producer
from integration.kafka.errors import ProviderUnusableError
from integration.kafka.examination import (
    ANSWER_SECONDS,
    Examination,
    Finding,
    Greeting,
    Right,
    Section,
    Verdict,
    answered,
    greet,
    judged,
    operation_name,
)
from integration.kafka.facts import from_coordinator
from integration.kafka.grants import CLUSTER, Resource
from integration.kafka.troubles import LOGGED_IN, UNKNOWN_TOPIC, error_of, has_code, words_of
from integration.models.provider import Provider

# DescribeConfigs: a queue's retention and size limits are compared with the topic's.
READING: Final = ("Describe", "Read", "DescribeConfigs")
# Without its settings a topic can still be read.
FLOWING: Final = ("Describe", "Read")
WRITING: Final = ("Describe", "Write")
TRANSACTIONS: Final = ("Describe", "Write")
WATERMARK: Final = ("Describe", "Read")
ABSENT: Final = "It does not exist yet; what we may do with it is seen when it does."


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The work to be done on a cluster.

    `ids` begins our transactional ids and the groups of the relay's watermark, `relay_topic` is
    what the watermark is an offset of, `lag_groups` begins the groups for lag tools. `groups` are
    those that runs join.
    """

    reads: Sequence[str]
    writes: Sequence[str]
    ids: str
    relay_topic: str
    lag_groups: str
    groups: Sequence[str] = ()


def examine(provider: Provider, wanted: Wanted) -> Examination:
    """Every step and right, in a few seconds whatever the cluster does. Raises nothing for it."""
    entered = greet(provider)
    sections = [entered.section]
    if entered.admin is not None and entered.to is not None:
        examiner = _Asking(provider, wanted, entered)
        sections += [examiner.reading(), examiner.writing(entered.to), examiner.creating()]
    return Examination(tuple(sections), grants.principal_of(provider))


def missing(provider: Provider, wanted: Wanted) -> list[Finding] | None:
    """The rights without which nothing flows, as far as the cluster says that they are refused.

    None where it does not let us in at all.
    """
    entered = greet(provider)
    if entered.admin is None or entered.to is None:
        return None
    if grants_all(entered):
        return []
    asking = _Asking(provider, wanted, entered)
    sections = [asking.reading(FLOWING)] if wanted.reads else []
    if wanted.writes:
        sections += [asking.writing(entered.to), asking.creating()]
    every = (finding for section in sections for finding in section.findings)
    return [one for one in every if one.is_needed and one.refused]


def grants_all(entered: Greeting) -> bool:
    """Nobody grants the brokers' own right to a client: then there are no rights at all there."""
    return "ClusterAction" in (entered.cluster_rights or ())


class _Asking:
    """The questions to one cluster that has let us in."""

    def __init__(self, provider: Provider, wanted: Wanted, entered: Greeting) -> None:
        assert entered.admin is not None  # noqa: S101 - asked only where we were let in
        self._provider = provider
        self._wanted = wanted
        self._admin: AdminClient = entered.admin
        self._on_cluster = entered.cluster_rights
        self._is_open = grants_all(entered)
        self._topics = self._ask_topics()

    def _ask_topics(self) -> dict[str, Any]:
        names = {*self._wanted.reads, *self._wanted.writes, self._wanted.relay_topic}
        return self._admin.describe_topics(
            TopicCollection(sorted(names)),
            include_authorized_operations=True,
            request_timeout=ANSWER_SECONDS,
        )

    def reading(self, needed: Sequence[str] = READING) -> Section:
        findings = [self._topic(name, needed) for name in self._wanted.reads]
        group = Resource("--group", self._wanted.lag_groups, is_prefix=True)
        why = "Only so that lag tools see how far queues have read; nothing else depends on it."
        findings.append(replace(self._group(group, ("Read",), why), is_needed=False))
        joined = "Runs join it: without this right they read nothing."
        findings += [
            self._group(Resource("--group", name), ("Read",), joined)
            for name in self._wanted.groups
        ]
        if not self._wanted.reads:
            findings.insert(0, _no_topic("No queue reads from here yet"))
        return Section("Read", tuple(findings))

    def writing(self, to: Connection) -> Section:
        findings = [self._topic(name, WRITING) for name in self._wanted.writes]
        if not self._wanted.writes:
            findings.append(_no_topic("No queue writes here yet"))
        transactions = self._transactions(to)
        watermark = Resource("--group", self._wanted.ids, is_prefix=True)
        findings += [
            transactions,
            self._idempotent(transactions),
            self._topic(
                self._wanted.relay_topic, WATERMARK, "The relay's watermark is kept at it."
            ),
            self._group(watermark, WATERMARK, "The relay's watermark is an offset of it."),
        ]
        return Section("Write in transactions", tuple(findings))

    def creating(self) -> Section:
        """Ask with a validation only: no topic is made."""
        absent = [name for name in self._topics if self._is_absent(name)]
        name = next(iter(absent), f"sluice-probe-{uuid4().hex[:8]}")
        why = (
            "Needed only for topics that Sluice is to create, its own "
            f"{self._wanted.relay_topic} among them."
        )
        allowed: frozenset[str] | None = frozenset({"Create"})
        if self._on_cluster is None or "Create" not in self._on_cluster:
            new = NewTopic(name, 1, -1)
            future = self._admin.create_topics(
                [new], validate_only=True, request_timeout=ANSWER_SECONDS
            )[name]
            try:
                answered(future)
            except KafkaException as problem:
                is_refused = has_code(problem, LOGGED_IN)
                allowed = frozenset() if is_refused else None
                if not is_refused:
                    why = f"{why} {words_of(problem)}."
        finding = judged(self._provider, CLUSTER, ("Create",), allowed, why)
        # Without its topic the relay cannot begin.
        is_needed = self._is_absent(self._wanted.relay_topic)
        return Section("Create topics", (replace(finding, is_needed=is_needed),))

    def _is_absent(self, name: str) -> bool:
        try:
            answered(self._topics[name])
        except KafkaException as problem:
            return has_code(problem, UNKNOWN_TOPIC)
        return False

    def _topic(self, name: str, needed: Sequence[str], text: str = "") -> Finding:
        resource = Resource("--topic", name)
        try:
            described = answered(self._topics[name])
        except KafkaException as problem:
            return self._unanswered(resource, needed, problem, text)
        return judged(self._provider, resource, needed, _names(described), text)

    def _group(self, resource: Resource, needed: Sequence[str], text: str) -> Finding:
        try:
            name = f"{resource.name}test" if resource.is_prefix else resource.name
            described = self._described_group(name)
        except KafkaException as problem:
            return self._unanswered(resource, needed, problem, text)
        return judged(self._provider, resource, needed, _names(described), text)

    def _described_group(self, name: str) -> Any:
        def describe() -> Any:
            return self._admin.describe_consumer_groups(
                [name], include_authorized_operations=True, request_timeout=ANSWER_SECONDS
            )[name]

        return answered(from_coordinator(describe))

    def _unanswered(
        self, resource: Resource, needed: Sequence[str], problem: KafkaException, text: str
    ) -> Finding:
        """Report the one answer there is: without Describe, a client is told nothing else."""
        if has_code(problem, LOGGED_IN):
            return judged(self._provider, resource, needed, frozenset(), text)
        is_absent = has_code(problem, UNKNOWN_TOPIC)
        why = f"{text} {ABSENT if is_absent else f'{words_of(problem)}.'}".strip()
        finding = judged(self._provider, resource, needed, None, why)
        # Where we may do everything, a command would be noise.
        return replace(finding, command="") if self._is_open else finding

    def _transactions(self, to: Connection) -> Finding:
        """Open with the id of a probe: the right to begin transactions cannot be asked for."""
        resource = Resource("--transactional-id", self._wanted.ids, is_prefix=True)
        try:
            producer = new_producer(to, f"{self._wanted.ids}test")
            producer.init_transactions(ANSWER_SECONDS)
        except (KafkaException, ProviderUnusableError) as problem:
            error = error_of(problem)
            if error is None or error.code() not in LOGGED_IN:
                return judged(self._provider, resource, TRANSACTIONS, None, f"{words_of(problem)}.")
            # The coordinator is looked for with Describe, its number asked for with Write.
            was_found = "find transaction coordinator" not in error.str()
            allowed = frozenset({"Describe"} if was_found else ())
            return judged(self._provider, resource, TRANSACTIONS, allowed)
        return judged(self._provider, resource, TRANSACTIONS, frozenset(TRANSACTIONS))

    def _idempotent(self, transactions: Finding) -> Finding:
        """Implied by the right to write with a transactional id."""
        if transactions.verdict is Verdict.OK:
            text = "Comes with the transactional id."
            right = Right("IdempotentWrite", Verdict.OK)
            return Finding(CLUSTER.words, Verdict.OK, text, (right,))
        text = "Comes with the transactional id; needs no grant of its own where that one is given."
        finding = judged(self._provider, CLUSTER, ("IdempotentWrite",), self._on_cluster, text)
        return replace(finding, is_needed=False)


def _names(described: Any) -> frozenset[str] | None:
    allowed = described.authorized_operations
    return None if allowed is None else frozenset(operation_name(code) for code in allowed)


def _no_topic(text: str) -> Finding:
    asks = "The test on the provider's page can ask about one by its name."
    text = f"{text}, so there is no topic whose rights could be asked about. {asks}"
    return Finding("Topics", Verdict.UNKNOWN, text)
