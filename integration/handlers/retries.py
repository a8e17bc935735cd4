"""The pauses between the tries of one handler's messages, as its author declares them."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from integration.errors import IntegrationError
from integration.policy.retry import Backoff, RetryRule


class BadRetryError(IntegrationError):
    """A handler declares retries that cannot be."""

    code = "BAD_RETRY"

    def __init__(self, declared: object, mistake: str) -> None:
        super().__init__(
            f"{declared}: {mistake}",
            next_step="Correct what the handler's decorator says under retry=.",
        )


@dataclass(frozen=True, kw_only=True)
class Retries(ABC):
    """What all of them have; None leaves it to the queue's policy. Times are in seconds.

    `retries` counts the tries after the first. `longest` bounds each pause; `jitter` is the
    largest share that is added to one; `within` is the time from the first failure to the last try.
    """

    retries: int | None = None
    longest: float | None = None
    jitter: float | None = None
    within: float | None = None

    def __post_init__(self) -> None:
        """Raises BadRetryError."""
        numbers = (*self.named, self.retries, self.longest, self.jitter, self.within)
        if any(number is not None and number < 0 for number in numbers):
            raise BadRetryError(self, "nothing in it may be below zero.")

    @property
    @abstractmethod
    def named(self) -> Sequence[float]:
        """Every number of seconds that a subclass names."""

    @property
    @abstractmethod
    def rule(self) -> RetryRule:
        """The same as the engine takes it."""

    def _rule(self, backoff: Backoff, first: float, **more: object) -> RetryRule:
        return RetryRule(
            backoff=backoff,
            first=timedelta(seconds=first),
            max_retries=self.retries,
            cap=_seconds(self.longest),
            jitter=self.jitter,
            total=_seconds(self.within),
            **more,  # type: ignore[arg-type] # factor or delays, by the subclasses below
        )


@dataclass(frozen=True)
class Constant(Retries):
    """Always the same pause."""

    pause: float

    @property
    def named(self) -> Sequence[float]:
        return [self.pause]

    @property
    def rule(self) -> RetryRule:
        return self._rule(Backoff.CONSTANT, self.pause)


@dataclass(frozen=True)
class Linear(Retries):
    """`first`, twice, three times as long, and so on."""

    first: float

    @property
    def named(self) -> Sequence[float]:
        return [self.first]

    @property
    def rule(self) -> RetryRule:
        return self._rule(Backoff.LINEAR, self.first)


@dataclass(frozen=True)
class Exponential(Retries):
    """`first`, then each pause `factor` times as long as the one before it."""

    first: float = 1.0
    factor: float = 2.0

    @property
    def named(self) -> Sequence[float]:
        return [self.first]

    def __post_init__(self) -> None:
        """Raises BadRetryError."""
        super().__post_init__()
        if self.factor < 1:
            raise BadRetryError(self, "a factor below 1 would make the pauses ever shorter.")

    @property
    def rule(self) -> RetryRule:
        return self._rule(Backoff.EXPONENTIAL, self.first, factor=self.factor)


@dataclass(frozen=True)
class List(Retries):
    """The pauses as written; the last one repeats."""

    pauses: Sequence[float]

    @property
    def named(self) -> Sequence[float]:
        return self.pauses

    def __post_init__(self) -> None:
        """Raises BadRetryError."""
        if not self.pauses:
            raise BadRetryError(self, "it needs at least one pause.")
        super().__post_init__()

    @property
    def rule(self) -> RetryRule:
        delays = tuple(timedelta(seconds=pause) for pause in self.pauses)
        return self._rule(Backoff.LIST, self.pauses[0], delays=delays)


def _seconds(seconds: float | None) -> timedelta | None:
    return None if seconds is None else timedelta(seconds=seconds)
