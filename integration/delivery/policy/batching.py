"""How a batch is run: optimistically in one go, or with a savepoint per message."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

# Above this share of failing messages a savepoint each is cheaper than replaying batches
# (measured at 0.1 % and at 1 %; the figures are in docs/decisions/0006).
SAVEPOINTS_ABOVE: Final = 0.003
WEIGHT: Final = 0.2


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

    def mode(self) -> Mode:
        return Mode.SAVEPOINTS if self.share > SAVEPOINTS_ABOVE else Mode.OPTIMISTIC
