"""The log of batches: which commit passed an offset, and which arrival number it had by that."""

import itertools
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

import psycopg

_BATCHES: Final = """
SELECT from_offset, to_offset, number, committed_at FROM integration_batchlog
WHERE partition_id = %s AND topic_uuid = %s AND to_offset >= %s AND from_offset <= %s
ORDER BY from_offset, number
"""


class Batch(NamedTuple):
    """A range of offsets that was passed in one commit, both ends included."""

    first: int
    last: int
    number: int
    committed_at: datetime


def batches_of(
    session: psycopg.Connection[Any], place: tuple[int, str], ends: tuple[int, int]
) -> list[Batch]:
    """The batches that passed any of these offsets, in the order of their first ones.

    `place` is the number of the queue's partition in the database, and its topic's UUID.
    """
    return [Batch(*row) for row in session.execute(_BATCHES, [*place, *ends])]


def covering(batches: Sequence[Batch], offsets: Sequence[int]) -> Iterator[list[Batch]]:
    """For each of these rising offsets the batches that passed it.

    A batch ends at the message that stopped it, and the next one begins with that: where two meet
    so, only the later one has passed it.
    """
    waiting = iter(batches)
    ahead = next(waiting, None)
    under: list[Batch] = []
    for offset in offsets:
        while ahead is not None and ahead.first <= offset:
            under.append(ahead)
            ahead = next(waiting, None)
        if (under and under[0].last < offset) or len(under) > 1:
            under = [batch for batch in under if batch.last >= offset]
        yield _without_stops(under, offset) if len(under) > 1 else under


def _without_stops(under: Sequence[Batch], offset: int) -> list[Batch]:
    ordered = sorted(under, key=lambda batch: batch.number)
    return [
        batch
        for batch, later in itertools.zip_longest(ordered, ordered[1:])
        if later is None or not (batch.last == offset == later.first)
    ]
