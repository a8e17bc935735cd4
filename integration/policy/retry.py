"""The times at which a failed message is tried again, and its giving up. Pure arithmetic."""

import math
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Final

LONGEST: Final = timedelta(days=30)


class Backoff(StrEnum):
    """The growth of the pause from try to try."""

    CONSTANT = "constant"  # always `first`
    LINEAR = "linear"  # first, 2 x first, 3 x first
    EXPONENTIAL = "exponential"  # first, factor x first, factor² x first
    LIST = "list"  # the pauses as written; the last one repeats


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """The number of retries and their distance.

    `max_retries` counts the tries after the first; None means without limit, which is a switch
    of its own in the forms and never written as 0. `jitter` is the largest share added to a
    pause (0.2 = up to a fifth longer): it only ever adds, so a retry is never early.
    `total` bounds the time from the first failure, or the first one after a release, to the last
    try.
    """

    max_retries: int | None = 3
    backoff: Backoff = Backoff.CONSTANT
    first: timedelta = timedelta(seconds=30)
    factor: float = 2.0
    delays: tuple[timedelta, ...] = ()
    cap: timedelta = timedelta(hours=1)
    jitter: float = 0.0
    total: timedelta | None = None


class RetrySource(StrEnum):
    """Whose rule decided about the retries of a message."""

    SERVICE = "service"  # the enterprise service's own
    HANDLER = "handler"  # declared beside the handler
    QUEUE = "queue"  # the queue's policy


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryRule:
    """A service's or a handler's own pauses; None leaves the rest to the queue's policy."""

    backoff: Backoff
    first: timedelta = timedelta(seconds=30)
    factor: float = 2.0
    delays: tuple[timedelta, ...] = ()
    max_retries: int | None = None
    cap: timedelta | None = None
    jitter: float | None = None
    total: timedelta | None = None

    def over(self, queue: RetryPolicy) -> RetryPolicy:
        """Return the whole policy: these pauses, and the queue's word where this has none."""
        return RetryPolicy(
            max_retries=queue.max_retries if self.max_retries is None else self.max_retries,
            backoff=self.backoff,
            first=self.first,
            factor=self.factor,
            delays=self.delays,
            cap=queue.cap if self.cap is None else self.cap,
            jitter=queue.jitter if self.jitter is None else self.jitter,
            total=queue.total if self.total is None else self.total,
        )


def choose(
    queue: RetryPolicy, *, service: RetryRule | None = None, handler: RetryRule | None = None
) -> tuple[RetryPolicy, RetrySource]:
    """Return the policy of a message and whose it is: its service's, its handler's, its queue's."""
    if service is not None:
        return service.over(queue), RetrySource.SERVICE
    if handler is not None:
        return handler.over(queue), RetrySource.HANDLER
    return queue, RetrySource.QUEUE


@dataclass(frozen=True, slots=True)
class RetryAfter:
    """Try again after this pause."""

    delay: timedelta


@dataclass(frozen=True, slots=True)
class GiveUp:
    """No further try; `reason` is a sentence for people."""

    reason: str


def pause(policy: RetryPolicy, retry_no: int, roll: float) -> timedelta:
    """Length of the pause before retry `retry_no` (1, 2, …). `roll` in [0, 1) picks the jitter."""
    seconds = min(_plain_seconds(policy, retry_no), policy.cap.total_seconds())
    seconds *= 1 + max(policy.jitter, 0.0) * roll
    return min(timedelta(seconds=min(seconds, LONGEST.total_seconds())), LONGEST)


def _plain_seconds(policy: RetryPolicy, retry_no: int) -> float:
    first = policy.first.total_seconds()
    match policy.backoff:
        case Backoff.CONSTANT:
            return first
        case Backoff.LINEAR:
            return first * retry_no
        case Backoff.EXPONENTIAL:
            return _grown(first, policy.factor, retry_no - 1)
        case Backoff.LIST:
            if not policy.delays:
                return first
            return policy.delays[min(retry_no, len(policy.delays)) - 1].total_seconds()


def _grown(first: float, factor: float, times: int) -> float:
    try:
        # 2.0 ** 2000 overflows; the cap would win long before.
        return first * factor ** min(times, 64)
    except OverflowError:
        return math.inf


def decide(
    policy: RetryPolicy, *, spent: int, since_first: timedelta, roll: float
) -> RetryAfter | GiveUp:
    """Decide what follows a failed try.

    `spent` is the number of retries already used since the first try or the last release;
    `since_first` the age of the first failure, or of the first one since then.
    """
    if policy.max_retries is not None and spent >= policy.max_retries:
        tries = spent + 1
        return GiveUp(f"All {tries} tries are used." if tries > 1 else "No retries are configured.")
    delay = pause(policy, spent + 1, roll)
    if policy.total is not None and since_first + delay > policy.total:
        return GiveUp(f"The time limit of {policy.total} for all tries is over.")
    return RetryAfter(delay)


def probe_pause(probes: int, roll: float) -> timedelta:
    """Pause before the next probe of an outage: 1 s doubling to 60 s, up to a fifth longer."""
    return timedelta(seconds=min(60.0, 2.0 ** min(probes, 6)) * (1 + 0.2 * roll))
