"""Consumer groups as the cluster tells of them: who is a member, and what it was assigned."""

from dataclasses import dataclass

from confluent_kafka import KafkaError

from integration.kafka.facts import ANSWER_SECONDS, answer, asking, from_coordinator
from integration.kafka.troubles import has_code
from integration.models.provider import Provider


@dataclass(frozen=True, slots=True)
class Member:
    """One member; `partitions` are those of the topic that was asked about."""

    id: str
    client: str
    host: str
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """A group now; one that nobody ever joined is `Dead`, one without members is `Empty`."""

    name: str
    protocol: str = ""
    state: str = "Dead"
    members: tuple[Member, ...] = ()


def described(provider: Provider, name: str, topic: str) -> Group:
    """Ask the cluster about a group. Raises BrokerUnreachableError, ProviderUnusableError."""
    with asking(provider) as (to, admin):
        future = from_coordinator(
            lambda: admin.describe_consumer_groups([name], request_timeout=ANSWER_SECONDS)[name]
        )
        if future.done() and has_code(future.exception(), {KafkaError.GROUP_ID_NOT_FOUND}):
            return Group(name)
        found = answer(future, to.name)
    members = (
        Member(
            one.member_id,
            one.client_id,
            one.host.removeprefix("/"),
            tuple(sorted(p.partition for p in one.assignment.topic_partitions if p.topic == topic)),
        )
        for one in found.members
    )
    in_order = tuple(sorted(members, key=lambda member: (member.partitions, member.id)))
    return Group(name, found.type.name.lower(), found.state.name.capitalize(), in_order)
