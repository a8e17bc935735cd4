"""Ids of traces and spans that follow from where a message lies. Pure.

A retry or a release comes minutes or weeks after the first try, in another process: it finds the
trace of the message, and the span of its first try, without anything having been stored for that.
"""

from hashlib import blake2b
from typing import Final, NamedTuple

HALF: Final = 1 << 64
_LOW: Final = HALF - 1
# The golden ratio as a fraction of 64 bits: neighbouring offsets fall far apart, and of any so many
# in a row a fixed share falls below a bound.
_GOLDEN: Final = 0x9E3779B97F4A7C15


class Partition(NamedTuple):
    """One life of a partition: the half that the traces which begin there share, and a number."""

    high: str
    base: int


def partition_of(topic_uuid: str, topic: str, partition: int) -> Partition:
    text = f"{topic_uuid}\n{topic}\n{partition}"
    digest = blake2b(text.encode(), digest_size=16).digest()
    return Partition(digest[:8].hex(), int.from_bytes(digest[8:], "big"))


def low_half(partition: Partition, offset: int) -> int:
    """Return the low half of the id of the trace that a message begins: what sampling looks at."""
    return (partition.base + offset * _GOLDEN) & _LOW


def trace_id(partition: Partition, offset: int) -> str:
    """Return the id of the trace of a message that came without one.

    >>> trace_id(Partition("00000000000000ff", 5), 0)
    '00000000000000ff0000000000000005'
    """
    return f"{partition.high}{low_half(partition, offset):016x}"


def span_id(trace: str, queue: int, offset: int, number: int) -> str:
    """Return the id of the span of one try; `number` is the arrival number of its commit."""
    text = f"{trace}\n{queue}\n{offset}\n{number}"
    return blake2b(text.encode(), digest_size=8).hexdigest()
