"""The topics of a provider's outbox, divided among the shards of its relay.

A topic falls into one of the buckets by its name alone; a shard sends the topics of neighbouring
buckets. How many shards there are may change; in which bucket a topic lies never does.
"""

from dataclasses import dataclass
from hashlib import md5
from typing import Final

BUCKETS: Final = 256
# As many numbers as the lock of a provider's relay leaves room for.
MOST_SHARDS: Final = 16


@dataclass(frozen=True, slots=True)
class Share:
    """The buckets from `first` to before `end`; none at all where the two are equal."""

    first: int = 0
    end: int = 0

    def __bool__(self) -> bool:
        return self.first < self.end

    def __contains__(self, bucket: int) -> bool:
        return self.first <= bucket < self.end

    def common(self, other: "Share") -> "Share":
        """Return what is in both."""
        first, end = max(self.first, other.first), min(self.end, other.end)
        return Share(first, end) if first < end else NOTHING


NOTHING: Final = Share()
EVERYTHING: Final = Share(0, BUCKETS)


def bucket(topic: str) -> int:
    """Return the bucket of a topic; in SQL `get_byte(decode(md5(topic), 'hex'), 0)`."""
    return md5(topic.encode(), usedforsecurity=False).digest()[0]


def share(shard: int, shards: int) -> Share:
    """Return what this one of so many shards is to hold; all of them together hold everything."""
    if shard >= shards:
        return NOTHING
    return Share(shard * BUCKETS // shards, (shard + 1) * BUCKETS // shards)


def shard_of(topic: str, shards: int) -> int:
    """Return whose share a topic is in, whoever still holds it."""
    return ((bucket(topic) + 1) * shards - 1) // BUCKETS
