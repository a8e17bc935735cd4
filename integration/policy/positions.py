"""What of a range of offsets is not through yet; whether keys lie where they lay."""

from collections.abc import Iterable, Iterator
from typing import Final

# Producers ask for a topic's partitions anew once what they know is that old: metadata.max.age.ms
# of the Java client, topic.metadata.refresh.interval.ms of librdkafka, by default 300,000 both.
# Until then they write a key to where it lay before partitions were added.
METADATA_SECONDS: Final = 300
# What was meant for a partition by then is delivered to it so much later at most:
# delivery.timeout.ms of the Java client, by default 120,000; message.timeout.ms of librdkafka,
# 300,000.
DELIVERY_SECONDS: Final = 300
PRODUCERS_KNOW_SECONDS: Final = METADATA_SECONDS + DELIVERY_SECONDS


def untried(first: int, after: int, done: Iterable[int]) -> Iterator[tuple[int, int]]:
    """The ranges (first, first after) of [first, after) without the offsets that are done.

    >>> list(untried(3, 9, [4, 5, 8, 20]))
    [(3, 4), (6, 8)]
    """
    for offset in sorted(set(done)):
        if first <= offset < after:
            if offset > first:
                yield first, offset
            first = offset + 1
    if first < after:
        yield first, after


def do_keys_stay(before: int, now: int) -> bool:
    """Return whether no key went from one old partition to another when their number grew.

    Kafka's clients send a key to the remainder of its hash by the number of partitions: once that
    is multiplied, a key that leaves its partition goes to a new one.

    >>> do_keys_stay(2, 4), do_keys_stay(3, 4)
    (True, False)
    """
    return now % before == 0
