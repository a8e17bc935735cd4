"""Fates of a record, how they are counted, and which of them are named one by one."""

from collections import Counter
from collections.abc import Mapping
from enum import StrEnum
from typing import Final, Self


class Fate(StrEnum):
    """The fate of the record at an offset, by what the database knows of it.

    The order is that in which they are named: what somebody has to look at comes first. Each is
    counted in the words of a report: what has ended is sent, what somebody has to look at is
    rejected, and skipped is what cannot be judged now.
    """

    gravity: int
    counted_as: str
    sentence: str

    def __new__(cls, word: str, counted_as: str, sentence: str) -> Self:
        fate = str.__new__(cls, word)
        fate._value_ = word
        fate.gravity = len(cls.__members__)
        fate.counted_as, fate.sentence = counted_as, sentence
        return fate

    # Where each record leaves a trace.
    LOST = "lost", "rejected", "Passed, and there is no trace of it."
    # Its effects were committed more than once.
    DOUBLED = "doubled", "rejected", "Applied more than once."
    GAP = "gap", "rejected", "Passed untried; the gap was recorded."
    HELD = "held", "rejected", "Waits for a person."
    PROCESSING = "processing", "rejected", "Failed, and is tried alone."
    READY = "ready", "rejected", "Failed, and was released."
    RETRY = "retry", "rejected", "Failed, and is tried again."
    PARKED = "parked", "rejected", "Not tried: an earlier message of its key is open."
    READ_TWICE = (
        "read_twice",
        "rejected",
        "Passed twice; whether it was applied twice is not known any more.",
    )
    DELETED = "deleted", "sent", "A person deleted it."
    CLOSED = "closed", "sent", "Failed; its failure was closed and cleaned up since."
    SUPERSEDED = "superseded", "sent", "Its key had newer data already."
    DUPLICATE = "duplicate", "sent", "The same id and content were seen before."
    UNKNOWN = "unknown", "skipped", "Passed before anything that is known of this partition."
    TO_COME = "to_come", "skipped", "Not reached yet."
    REPLAYED = "replayed", "sent", "Applied, and once more by a replay."
    RESOLVED = "resolved", "sent", "Failed, and applied at a later try."
    # By a batch.
    PASSED = (
        "passed",
        "sent",
        "Settled; how it ended was not written down, or is not kept any more.",
    )
    # On an error queue.
    COPY = "copy", "sent", "The copy of a failure."
    RETRY_MARKER = "ticket", "sent", "A marker that a retry is due."
    # Its effects were committed with the position.
    APPLIED = "applied", "sent", "Applied."


# Ended as they should: counted, and not named one by one.
UNNAMED: Final = frozenset(
    {Fate.REPLAYED, Fate.RESOLVED, Fate.PASSED, Fate.COPY, Fate.RETRY_MARKER, Fate.APPLIED}
)


def counted(fates: Mapping[str, int]) -> dict[str, int]:
    """Count the records of each fate, in the words of a report."""
    counts = Counter(read=sum(fates.values()), sent=0, rejected=0, skipped=0)
    for fate in Fate:
        counts[fate.counted_as] += fates.get(fate, 0)
    return dict(counts)
