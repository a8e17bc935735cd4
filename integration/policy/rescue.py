"""Arithmetic of a rescue: which offsets stand in the database, and which are in danger. Pure."""

from collections.abc import Sequence
from typing import Final

Range = tuple[int, int]
"""[first, end): every record of these offsets was copied; what has no row there is no record."""

# So much of what a topic keeps is left when a rescue begins, by default, and at most a day.
MARGIN_SHARE: Final = 0.25
MOST_MARGIN_SECONDS: Final = 86_400.0
# A hundred years. What is kept for longer never expires: people write the largest number that there
# is for that, and no moment can be reckoned by it.
ENDLESS_SECONDS: Final = 3_153_600_000


def end_of(ranges: Sequence[Range], offset: int) -> int | None:
    """Return where the range ends that this offset lies in; None where it lies in none.

    >>> end_of([(5, 9), (12, 20)], 12)
    20
    """
    return next((end for first, end in ranges if first <= offset < end), None)


def first_outside(ranges: Sequence[Range], offset: int) -> int:
    """Return the first offset from here on that is in no range.

    >>> first_outside([(5, 9), (9, 20)], 6)
    20
    """
    for first, end in sorted(ranges):
        if first <= offset < end:
            offset = end
    return offset


def gone_until(ranges: Sequence[Range], offset: int, low: int) -> int:
    """Return up to where nothing is left from this offset on, neither in Kafka nor in a range.

    It is the offset itself where nothing is missing. `low` is the first offset that Kafka has.

    >>> gone_until([(5, 9)], 2, low=7), gone_until([(5, 9)], 5, low=7)
    (5, 5)
    """
    if end_of(ranges, offset) is not None:
        return offset
    begins = [first for first, _ in ranges if first > offset]
    return max(offset, min([low, *begins]))


def next_piece(ranges: Sequence[Range], offset: int, until: int) -> Range | None:
    """Return the next offsets below `until` that are in no range; None where there are none.

    >>> next_piece([(5, 9)], 2, 20), next_piece([(5, 9)], 6, 20), next_piece([(5, 9)], 6, 9)
    ((2, 5), (9, 20), None)
    """
    first = first_outside(ranges, offset)
    if first >= until:
        return None
    return first, min([until, *(begin for begin, _ in ranges if begin > first)])


def margin_seconds(
    kept_seconds: float, share: float = MARGIN_SHARE, most_seconds: float = MOST_MARGIN_SECONDS
) -> float:
    """Return how long before a record may expire it is rescued."""
    return min(kept_seconds * share, most_seconds)


def outgrown_before(end: int, kept_bytes: int, each_bytes: float, share: float) -> int:
    """Return the offset before which a topic that keeps so many bytes is about to forget.

    Records of this size on average fill what it keeps; the margin is `share` of that.

    >>> outgrown_before(10_000, kept_bytes=1_000_000, each_bytes=500, share=0.25)
    8500
    """
    return max(0, end - int(kept_bytes * (1 - share) / max(each_bytes, 1.0)))
