"""What of a range of offsets is not through yet, where messages are committed out of order."""

from collections.abc import Iterable, Iterator


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
