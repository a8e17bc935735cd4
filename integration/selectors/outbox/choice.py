"""The rows of an outbox choice as they are now, for people who are about to decide."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from integration.models import OutboxRow, Queue
from integration.policy.states import OutboxState

Seen = Mapping[int, UUID | None]


@dataclass(frozen=True, slots=True)
class Part:
    """Rows of one queue, kind and cause. `queue` is empty for a topic that is no queue's."""

    queue: str
    topic: str
    kind: str
    code: str
    count: int
    oldest: datetime


@dataclass(frozen=True, slots=True)
class Choice:
    """The rows a decision would touch; `moved_on` rows are not as they were seen, or are gone."""

    parts: tuple[Part, ...]
    moved_on: int

    @property
    def fit(self) -> int:
        return sum(part.count for part in self.parts)


def choice(seen: Seen) -> Choice:
    """Those of the rows that are dead under the batch they were seen with, by queue and cause.

    Two queries for any number of rows.
    """
    rows = [
        row
        for row in OutboxRow.objects.filter(pk__in=list(seen), state=OutboxState.DEAD)
        .order_by("created_at")
        .only("batch", "provider", "topic", "strict_queue", "kind", "dead_code", "created_at")
        if row.batch == seen[row.pk]
    ]
    names = _names()
    parts: dict[tuple[str, str, str, str], list[datetime]] = {}
    for row in rows:
        queue = names.get(row.strict_queue) or names.get((row.provider_id, row.topic), "")
        key = (queue, row.topic, row.kind, row.dead_code)
        parts.setdefault(key, []).append(row.created_at)
    return Choice(
        parts=tuple(Part(*key, len(times), times[0]) for key, times in sorted(parts.items())),
        moved_on=len(seen) - len(rows),
    )


def _names() -> dict[object, str]:
    """Outbound queues by their id, and by provider and topic."""
    outbound = Queue.objects.filter(direction=Queue.Direction.OUTBOUND)
    names: dict[object, str] = {}
    for pk, name, provider, topic in outbound.values_list("pk", "name", "provider", "topic"):
        names[pk] = names[provider, topic] = name
    return names
