"""The run of a batch: optimistically in one go, or with a savepoint per message."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

# Above this share of failing messages a savepoint each is cheaper than replaying batches
# (measured at 0.1 % and at 1 %; the figures are in docs/decisions/0006).
SAVEPOINTS_ABOVE: Final = 0.003
WEIGHT: Final = 0.2
# One savepoint for so many at most: what runs again after a failure stays little work.
MOST_TOGETHER: Final = 32


class Mode(StrEnum):
    """One transaction either way; what differs is what a failure costs."""

    OPTIMISTIC = "optimistic"
    SAVEPOINTS = "savepoints"


@dataclass(slots=True)
class FailureRate:
    """Moving average of the share of messages that failed, weighted by batch."""

    share: float = 0.0

    def add(self, *, failed: int, handled: int) -> None:
        if handled:
            self.share += WEIGHT * (failed / handled - self.share)

    def together(self) -> int:
        """Return how many messages share a savepoint where this share fails; at least one.

        A savepoint costs about half as much as the call of a handler with one statement, and a
        failure has half a group run again: n with the least of 1 / 2n + share * n / 2.
        """
        return MOST_TOGETHER if self.share <= 0 else min(MOST_TOGETHER, round(self.share**-0.5))

    def mode(self) -> Mode:
        return Mode.SAVEPOINTS if self.share > SAVEPOINTS_ABOVE else Mode.OPTIMISTIC
