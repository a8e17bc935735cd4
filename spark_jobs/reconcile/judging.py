"""The fate of each offset, from what is known of its stretch. Pure: values in, fates out.

Lost is said only where a trace must be: a batch that tracked others of its messages, or a log of
batches that is whole. Everywhere else it is said that nobody knows any more.
"""

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Final

from spark_jobs.reconcile.fates import Fate
from spark_jobs.reconcile.knowing import Batch, Failed, Known
from spark_jobs.topics.reading import COPY, RETRY_MARKER

OPEN: Final = {
    "RETRY": Fate.RETRY,
    "HOLD": Fate.HELD,
    "READY": Fate.READY,
    "PARKED": Fate.PARKED,
    "PROCESSING": Fate.PROCESSING,
}
APPLIED: Final = frozenset({"APPLIED", "DELIVERED"})
FAILED: Final = frozenset({"RETRY", "HOLD", "PARKED"})
# Endings of a message that was not applied, the first that is found.
ENDED: Final = {"SUPERSEDED": Fate.SUPERSEDED, "DUPLICATE": Fate.DUPLICATE}
Record = tuple[int, int]
"""An offset, and its kind as `topics.reading.KIND` tells it."""


def judged(records: Sequence[Record], known: Known) -> Iterator[Fate]:
    """The fate of each record; offsets rise, and lie within what is known."""
    offsets = [offset for offset, _ in records]
    passed = covering(known.batches, offsets)
    ordinary = ["APPLIED"]
    nowhere = -1 if known.next_offset is None else known.next_offset
    for (offset, kind), batches in zip(records, passed, strict=True):
        failed, endings = known.failures.get(offset), known.endings.get(offset, ())
        is_through = offset < nowhere or offset in known.done
        if is_through and failed is None and endings == ordinary:
            yield Fate.APPLIED
        else:
            yield _judged(offset, kind, known, (failed, endings, batches))


Traces = tuple[Failed | None, Sequence[str], Sequence[Batch]]


def _judged(offset: int, kind: int, known: Known, traces: Traces) -> Fate:
    failed, endings, batches = traces
    if failed is not None and failed.state in OPEN:
        return OPEN[failed.state]
    often = _doubled(failed, endings)
    if often is not None:
        return often
    if known.is_to_come(offset):
        # A deleted head is passed by the next run.
        is_deleted = failed is not None and failed.state == "DELETED"
        return Fate.DELETED if is_deleted else Fate.TO_COME
    if failed is not None:
        return _closed(failed)
    return _ended(endings) or _marker(kind, known) or _untraced(offset, known, batches)


def _doubled(failed: Failed | None, endings: Sequence[str]) -> Fate | None:
    later = failed is not None and failed.state == "RESOLVED" and failed.ended in APPLIED
    times = sum(ended in APPLIED for ended in endings) + later
    if times <= 1:
        return None
    is_replay = failed is not None and failed.was_replayed and times == 2
    return Fate.REPLAYED if is_replay and later else Fate.DOUBLED


def _closed(failed: Failed) -> Fate:
    if failed.state == "DELETED":
        return Fate.DELETED
    if failed.was_replayed and failed.ended in ENDED:
        # Applied before, and found so again.
        return Fate.REPLAYED
    return ENDED.get(failed.ended, Fate.RESOLVED)


def _ended(endings: Sequence[str]) -> Fate | None:
    """Judge by the best ending in batches of its own; a marker's say nothing of a message."""
    if any(ended in APPLIED for ended in endings):
        return Fate.APPLIED
    for ended, fate in ENDED.items():
        if ended in endings:
            return fate
    if any(ended in FAILED for ended in endings):
        return Fate.CLOSED
    if "PASSED" in endings:
        return Fate.COPY
    return Fate.RETRY_MARKER if "STALE" in endings else None


def _marker(kind: int, known: Known) -> Fate | None:
    """A retry marker leaves its trace at the offset of the message that it reminds of.

    So does the copy that a strict error queue waited at until its failure was closed.
    """
    if kind == RETRY_MARKER:
        return Fate.RETRY_MARKER
    return Fate.COPY if kind == COPY and known.is_error_queue else None


def _untraced(offset: int, known: Known, batches: Sequence[Batch]) -> Fate:
    """It was passed, and neither a failure nor tracking tells how."""
    untracked = [batch for batch in batches if batch.number not in known.tracked]
    if untracked:
        return Fate.READ_TWICE if len(batches) > 1 else Fate.PASSED
    if any(first <= offset < after for first, after in known.gaps):
        return Fate.GAP
    if batches or (known.first is not None and offset > known.first):
        return Fate.LOST
    # Before the first batch that is known: the queue was to begin there, or behind it.
    is_ours = known.began_at_beginning and known.whole
    return Fate.LOST if is_ours else Fate.UNKNOWN


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
        for batch, later in zip_longest(ordered, ordered[1:])
        if later is None or not (batch.last == offset == later.first)
    ]
