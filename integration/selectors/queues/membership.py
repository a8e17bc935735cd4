"""The consumer group of a queue in group mode: its members, and which of them are runs of ours."""

from dataclasses import dataclass
from typing import Final

from integration.kafka import groups
from integration.kafka.groups import Member
from integration.kafka.source import group_of
from integration.models import PartitionLease, Queue
from integration.store.sessions import fetch_all
from integration.store.sharing import COUNT

_RUNS: Final = f"SELECT {COUNT} FROM integration_queue q WHERE q.id = %s"


@dataclass(frozen=True, slots=True)
class MemberRow:
    """One member as Kafka tells of it, and the run of ours that took up its assignment."""

    member: Member
    owner: str = ""


@dataclass(frozen=True, slots=True)
class GroupRow:
    """A group now. `joining` counts runs of ours that hold no partition."""

    name: str
    protocol: str
    state: str
    members: tuple[MemberRow, ...]
    joining: int

    @property
    def strangers(self) -> tuple[Member, ...]:
        """Return members that no run of ours can be, with partitions that are not read here.

        Runs of ours that hold nothing are members that nobody knows, too: rather those without an
        assignment.
        """
        unknown = [row.member for row in self.members if not row.owner]
        unknown.sort(key=lambda member: not member.partitions)
        too_many = unknown[: max(0, len(unknown) - self.joining)]
        return tuple(member for member in too_many if member.partitions)


def group_row(queue: Queue) -> GroupRow:
    """Ask the cluster. Raises BrokerUnreachableError, ProviderUnusableError."""
    found = groups.described(queue.provider, group_of(queue), queue.topic)
    # Also of one that has died: until somebody takes its partitions, that was its member.
    leases = PartitionLease.objects.filter(partition__queue=queue, released_at__isnull=True)
    owners = dict(leases.exclude(group_member="").values_list("group_member", "owner"))
    members = tuple(MemberRow(member, owners.get(member.id, "")) for member in found.members)
    [(runs,)] = fetch_all(_RUNS, (queue.pk,))
    joining = max(0, runs - len(set(owners.values())))
    return GroupRow(found.name, found.protocol, found.state, members, joining)
