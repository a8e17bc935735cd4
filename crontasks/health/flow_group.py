"""The link of the flow check that is Kafka's: the consumer group of a queue in group mode."""

from crontasks.health.checks import Finding
from integration.counting import listed, so_many
from integration.errors import IntegrationError
from integration.kafka.groups import Member
from integration.models import Queue
from integration.selectors.queues.membership import group_row
from integration.selectors.queues.status import Situation


def group(queue: Queue) -> Finding:
    """Check who shares the topic with us: what is assigned to a stranger is not read here."""
    try:
        row = group_row(queue)
    except IntegrationError as e:
        return Situation(e.sentence, e.next_step or "Fix the provider first.")
    if row.strangers:
        taken = listed([_taken(stranger) for stranger in row.strangers])
        return Situation(
            f"The group {row.name} has members that are no runs of this queue, and what is "
            f"assigned to them is not read here: {taken}.",
            "Give the queue a consumer group of its own, or stop the other consumer.",
            f"It comes from {listed(sorted({stranger.host for stranger in row.strangers}))}.",
        )
    if not row.members:
        return f"Nobody is in {row.name} now; a run joins when there is something to read."
    ours = "a run" if len(row.members) == 1 else "all of them runs"
    return f"{row.name} has {so_many(len(row.members), 'member')}, {ours} of this queue."


def _taken(member: Member) -> str:
    noun = "partition" if len(member.partitions) == 1 else "partitions"
    numbers = ", ".join(map(str, member.partitions))
    return f"{noun} {numbers} to the client {member.client}"
