"""Operations, the pure part: which states follow which, what an item ends in, how fast."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from integration.policy.states import ErrorState, OperationState

# One short transaction: a person's pause waits no longer than it, and rows are locked no longer.
CHUNK_ROWS: Final = 500
# What reads each message whole, and writes it anew.
EDIT_ROWS: Final = 100
# The first messages are on their way before the many are.
FIRST_ROWS: Final = 50
# What was not used of the rate is not made up for beyond this.
BURST_SECONDS: Final = 1.0
# Of a share: two failures among the first ten say nothing yet.
FEWEST_OF_A_SHARE: Final = 10
MOST_FAILURES: Final = 1_000_000
# The reason why an operation paused, where it did so by itself for its StopRule.
FAILING: Final = "failing"

OPERATION_MOVES: Final[Mapping[OperationState, frozenset[OperationState]]] = {
    OperationState.PLANNED: frozenset({OperationState.RUNNING, OperationState.CANCELLED}),
    OperationState.RUNNING: frozenset(
        {OperationState.PAUSED, OperationState.DONE, OperationState.CANCELLED}
    ),
    OperationState.PAUSED: frozenset({OperationState.RUNNING, OperationState.CANCELLED}),
    OperationState.DONE: frozenset(),
    OperationState.CANCELLED: frozenset(),
}


class ItemOutcome(StrEnum):
    """The effect of an operation on one of its messages; an item without an outcome still waits."""

    DONE = "DONE"  # the verb was carried out
    WRONG_STATE = "WRONG_STATE"  # the verb is not possible from the state it is in
    MOVED_ON = "MOVED_ON"  # changed since it was chosen, by a person or by the engine
    GONE = "GONE"  # not in the error table any more
    IN_WORK = "IN_WORK"  # the engine or a person held the row for as long as was waited
    LATE = "LATE"  # would be applied after newer messages, and nobody confirmed that
    INVALID = "INVALID"  # the edit does not fit this message
    REFUSED = "REFUSED"  # a dead letter that may not go back to where it came from
    UNCHANGED = "UNCHANGED"  # the edit changes nothing in it


class Became(StrEnum):
    """The fate of a message after the operation had done its part."""

    RESOLVED = "RESOLVED"  # tried again, and it ended well
    FAILED = "FAILED"  # tried again, and failed again
    WAITING = "WAITING"  # not tried again yet
    KEPT = "KEPT"  # as the operation left it: on hold, deleted or restored
    MOVED = "MOVED"  # somebody changed it since
    GONE = "GONE"  # cleaned up since


@dataclass(frozen=True, slots=True)
class Seen:
    """A failure as it is now, as far as a verdict needs it."""

    version: int
    state: ErrorState
    late: bool


def verdict(
    seen: Seen, version: int, *, expected: Collection[ErrorState], late_allowed: bool
) -> ItemOutcome:
    """Judge whether the verb may be carried out on a message that was chosen at `version`."""
    if seen.version != version:
        return ItemOutcome.MOVED_ON
    if seen.state not in expected:
        return ItemOutcome.WRONG_STATE
    if seen.late and not late_allowed:
        return ItemOutcome.LATE
    return ItemOutcome.DONE


@dataclass(slots=True)
class Pace:
    """The number of messages that may be taken now, at `rate` a second (None: no limit).

    Seconds come from any clock that only goes forward. `idle_seconds` is how long the operation
    has rested when this pace begins: what it might have done meanwhile is made up for, up to
    one second's worth.
    """

    rate: int | None
    now: float
    idle_seconds: float = BURST_SECONDS
    credit: float = 0.0

    def __post_init__(self) -> None:
        if self.rate is not None:
            self.credit = self._most(self.rate * self.idle_seconds)

    def at(self, now: float, rate: int | None) -> None:
        """Let time pass; the rate may have been changed meanwhile."""
        passed, self.now = max(0.0, now - self.now), now
        self.rate = rate
        self.credit = 0.0 if rate is None else self._most(self.credit + rate * passed)

    def next(self, most: int) -> int:
        """Return how many may be taken now, at most `most`."""
        return most if self.rate is None else min(most, int(self.credit))

    def took(self, count: int) -> None:
        if self.rate is not None:
            self.credit -= count

    def wait_seconds(self) -> float:
        """Return how long until one more may be taken."""
        if self.rate is None or self.credit >= 1:
            return 0.0
        return (1 - self.credit) / self.rate

    def _most(self, credit: float) -> float:
        # A rate of one a second must still come to one.
        return min(credit, max(1.0, (self.rate or 0) * BURST_SECONDS))


@dataclass(frozen=True, slots=True)
class StopRule:
    """The rule by which an operation pauses: so many of what it released failed again.

    `after` is a number of messages, `share` a percentage of those released so far; the first that
    is met counts, and without either nothing stops it.
    """

    after: int | None = None
    share: int | None = None

    @classmethod
    def read(cls, text: str) -> "StopRule":
        """The rule as people write it: "100", or "5 %"; empty for none. Raises ValueError.

        >>> StopRule.read("5 %")
        StopRule(after=None, share=5)
        """
        rule = text.strip()
        if not rule:
            return cls()
        digits = rule.removesuffix("%").strip()
        number = int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 10 else 0
        is_share = rule.endswith("%")
        if not 1 <= number <= (100 if is_share else MOST_FAILURES):
            raise ValueError("write a number such as 100, or a share such as 5 %")
        return cls(share=number) if is_share else cls(after=number)

    def enough(self, released: int) -> int | None:
        """Return how many failures again are enough after so many releases; None for never.

        >>> StopRule(share=5).enough(1_000)
        50
        """
        bounds = [] if self.after is None else [self.after]
        if self.share is not None:
            bounds.append(max(FEWEST_OF_A_SHARE, -(-released * self.share // 100)))
        return min(bounds, default=None)

    def __str__(self) -> str:
        limits = [] if self.after is None else [f"{self.after:,}"]
        return " or ".join(limits if self.share is None else [*limits, f"{self.share} %"])


# Of an operation that nothing stops.
NEVER: Final = StopRule()
