"""What topics take that somebody wants to write to: asked before it is promised that they will."""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclOperation
from confluent_kafka.admin._config import ConfigResource

from integration.kafka.errors import BrokerRefusedError
from integration.kafka.facts import ANSWER_SECONDS, TopicGoneError, answer, asking
from integration.kafka.troubles import LOGGED_IN, has_code
from integration.models.provider import Provider

_SIZE: Final = "max.message.bytes"


@dataclass(frozen=True, slots=True)
class Target:
    """A topic that is to be written to. What the cluster does not tell is taken to be allowed.

    `most_bytes` limits what is sent in one packet; None where we may not know.
    """

    is_there: bool = True
    may_write: bool = True
    needs_key: bool = False
    most_bytes: int | None = None


def ask(provider: Provider, topics: Sequence[str]) -> Mapping[str, Target]:
    """Ask about several at once. Raises BrokerUnreachableError, ProviderUnusableError."""
    with asking(provider) as (to, admin):
        described: Mapping[str, Future[Any]] = admin.describe_topics(
            TopicCollection(list(topics)),
            include_authorized_operations=True,
            request_timeout=ANSWER_SECONDS,
        )
        settings = _settings(admin, topics)
        return {name: _target(described[name], settings[name], to.name) for name in topics}


def _settings(admin: AdminClient, topics: Sequence[str]) -> Mapping[str, Future[Any]]:
    resources = {name: ConfigResource(ConfigResource.Type.TOPIC, name) for name in topics}
    futures = admin.describe_configs(list(resources.values()), request_timeout=ANSWER_SECONDS)
    return {name: futures[resource] for name, resource in resources.items()}


def _target(described: Future[Any], settings: Future[Any], provider: str) -> Target:
    try:
        allowed = answer(described, provider).authorized_operations
    except TopicGoneError:
        return Target(is_there=False)
    except BrokerRefusedError as problem:
        if not _is_of_rights(problem):
            raise
        # Whoever may write may also describe.
        return Target(may_write=False)
    may_write = allowed is None or AclOperation.WRITE in allowed
    try:
        found = {name: str(entry.value) for name, entry in answer(settings, provider).items()}
    except TopicGoneError:
        return Target(is_there=False)
    except BrokerRefusedError as problem:
        if not _is_of_rights(problem):
            raise
        return Target(may_write=may_write)
    needs_key = "compact" in found["cleanup.policy"].split(",")
    return Target(may_write=may_write, needs_key=needs_key, most_bytes=int(found[_SIZE]))


def _is_of_rights(problem: BrokerRefusedError) -> bool:
    cause = problem.__cause__
    return isinstance(cause, KafkaException) and has_code(cause, LOGGED_IN)
