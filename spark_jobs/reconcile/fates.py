"""What can have become of a record, how it is counted, and which fates are told one by one."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final, NamedTuple


class Fate(StrEnum):
    """What became of the record at an offset, by what the database knows of it.

    The order is that in which they are named: what somebody has to look at comes first.
    """

    LOST = "lost"  # passed, and no trace of it where each record leaves one
    DOUBLED = "doubled"  # its effects were committed more than once
    GAP = "gap"  # passed untried; it was recorded, and told
    HELD = "held"  # failed, and waits for a person
    PROCESSING = "processing"  # failed; a crash suspect in work
    READY = "ready"  # failed, and released
    RETRY = "retry"  # failed, and is tried again
    READ_TWICE = "read_twice"  # passed twice; nobody knows whether it was applied twice
    DELETED = "deleted"  # a person decided that it is not to be applied
    CLOSED = "closed"  # failed; its failure was closed, and the cleanup has taken it since
    SUPERSEDED = "superseded"  # its key had newer data already; nothing was written
    DUPLICATE = "duplicate"  # its id and content were seen before; nothing was written
    UNKNOWN = "unknown"  # passed before everything that is known of its partition
    TO_COME = "to_come"  # not reached yet
    REPLAYED = "replayed"  # applied, and once more by a replay that somebody asked for
    RESOLVED = "resolved"  # failed, and applied at a later try
    PASSED = "passed"  # settled by a batch; nothing more was written down, or is kept
    COPY = "copy"  # the copy of a failure, on an error queue
    TICKET = "ticket"  # our own marker that a retry is due
    APPLIED = "applied"  # its effects were committed with the position


# In the words of a report: what has ended is sent, what somebody has to look at is rejected, and
# skipped is what cannot be judged now.
REJECTED: Final = frozenset(
    {
        Fate.LOST,
        Fate.DOUBLED,
        Fate.GAP,
        Fate.HELD,
        Fate.PROCESSING,
        Fate.READY,
        Fate.RETRY,
        Fate.READ_TWICE,
    }
)
SKIPPED: Final = frozenset({Fate.UNKNOWN, Fate.TO_COME})
# Ended as they should: counted, and not named one by one.
UNNAMED: Final = frozenset(
    {Fate.REPLAYED, Fate.RESOLVED, Fate.PASSED, Fate.COPY, Fate.TICKET, Fate.APPLIED}
)
GRAVITY: Final[Mapping[Fate, int]] = MappingProxyType(
    {fate: place for place, fate in enumerate(Fate)}
)
SENTENCES: Final[Mapping[Fate, str]] = MappingProxyType(
    {
        Fate.LOST: "Passed, and there is no trace of it.",
        Fate.DOUBLED: "Applied more than once.",
        Fate.GAP: "Passed untried; the gap was recorded.",
        Fate.HELD: "Waits for a person.",
        Fate.PROCESSING: "Failed, and is tried alone.",
        Fate.READY: "Failed, and was released.",
        Fate.RETRY: "Failed, and is tried again.",
        Fate.READ_TWICE: "Passed twice; whether it was applied twice is not known any more.",
        Fate.DELETED: "A person deleted it.",
        Fate.CLOSED: "Failed; its failure was closed and cleaned up since.",
        Fate.SUPERSEDED: "Its key had newer data already.",
        Fate.DUPLICATE: "The same id and content were seen before.",
        Fate.UNKNOWN: "Passed before anything that is known of this partition.",
        Fate.TO_COME: "Not reached yet.",
        Fate.REPLAYED: "Applied, and once more by a replay.",
        Fate.RESOLVED: "Failed, and applied at a later try.",
        Fate.PASSED: "Settled; how it ended was not written down, or is not kept any more.",
        Fate.COPY: "The copy of a failure.",
        Fate.TICKET: "A marker that a retry is due.",
        Fate.APPLIED: "Applied.",
    }
)


class Counts(NamedTuple):
    """The counts of a report."""

    read: int
    sent: int
    rejected: int
    skipped: int


def counted(fates: Mapping[str, int]) -> Counts:
    """How many records had which fate, in the words of a report."""
    read = sum(fates.values())
    rejected = sum(fates.get(fate, 0) for fate in REJECTED)
    skipped = sum(fates.get(fate, 0) for fate in SKIPPED)
    return Counts(read, read - rejected - skipped, rejected, skipped)
