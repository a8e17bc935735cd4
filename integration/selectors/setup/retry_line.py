"""A retry policy as a time line and in words: what happens to a message that keeps failing."""

from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import accumulate, pairwise
from math import log1p
from typing import Final

from integration.counting import so_many
from integration.durations import written
from integration.policy.retry import GiveUp, RetryPolicy, RetryRule, decide

SHOWN: Final = 8
WORDED: Final = 6
# So many tries of an unlimited policy are followed, to show how it goes on.
FOLLOWED_UNLIMITED: Final = 12


@dataclass(frozen=True, slots=True)
class Try:
    """One try: its number, the pause before it and when it is, counted from the first failure.

    `share` is the place of one that is drawn, from 0 to 100.
    """

    number: int
    pause: timedelta
    at: timedelta
    share: float = 0.0

    @property
    def x(self) -> int:
        """Its place on a line that is drawn from 8 to 992."""
        return 8 + round(self.share * 9.84)

    @property
    def pause_words(self) -> str:
        return written(self.pause.total_seconds())

    @property
    def at_words(self) -> str:
        return written(self.at.total_seconds())


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryLine:
    """The retries after the first try. `hidden` of them are not drawn, the last one always is."""

    retries: tuple[Try, ...]
    shown: tuple[Try, ...]
    is_unlimited: bool
    words: str
    remarks: tuple[str, ...]

    @property
    def hidden(self) -> int:
        return len(self.retries) - len(self.shown)

    @property
    def last(self) -> Try | None:
        return self.retries[-1] if self.retries else None

    @property
    def seconds(self) -> float | None:
        """The seconds from the first failure to the last try; None when there is no last one."""
        if self.is_unlimited:
            return None
        return self.retries[-1].at.total_seconds() if self.retries else 0.0


def retry_line(policy: RetryPolicy) -> RetryLine:
    """Follow the policy with a message that fails at once and always; jitter is told, not drawn."""
    retries = tuple(_followed(policy))
    is_unlimited = policy.max_retries is None and policy.total is None
    shown = retries if len(retries) <= SHOWN else (*retries[: SHOWN - 1], retries[-1])
    return RetryLine(
        retries=retries,
        shown=_placed(shown),
        is_unlimited=is_unlimited,
        words=_words(retries, is_unlimited=is_unlimited),
        remarks=tuple(_remarks(policy, retries)),
    )


def _followed(policy: RetryPolicy) -> list[Try]:
    tries: list[Try] = []
    at = timedelta()
    unlimited = policy.max_retries is None
    most = FOLLOWED_UNLIMITED if unlimited and policy.total is None else 10_000
    while len(tries) < most:
        verdict = decide(policy, spent=len(tries), since_first=at, roll=0.0)
        if isinstance(verdict, GiveUp):
            break
        at += verdict.delay
        tries.append(Try(len(tries) + 1, verdict.delay, at))
        if not verdict.delay and unlimited:
            # Without a pause the total time never passes here.
            break
    return tries


def _placed(tries: tuple[Try, ...]) -> tuple[Try, ...]:
    """Give each its place: a step on the line is the logarithm of the pause before it.

    So equal pauses are equal steps, and of two pauses the longer one is the longer step. Where
    tries are left out, one step stands for all the pauses before the last one.
    """
    moments = [timedelta(), *(attempt.at for attempt in tries)]
    steps = [log1p((after - before).total_seconds()) for before, after in pairwise(moments)]
    # Without any pause they stand as far from each other as they can be told apart.
    steps = steps if any(steps) else [1.0] * len(tries)
    places = accumulate(steps)
    return tuple(
        replace(attempt, share=100 * place / sum(steps))
        for attempt, place in zip(tries, places, strict=True)
    )


def _words(retries: tuple[Try, ...], *, is_unlimited: bool) -> str:
    if not retries:
        return "No retries: the first failure is final, and the message waits for a person."
    if not retries[-1].at:
        tries = "forever" if is_unlimited else so_many(len(retries), "time")
        return f"Tried again {tries} at once, without a pause: what is down has no time to come up."
    pauses = [retry.pause_words for retry in retries]
    shown = ", ".join(pauses[:WORDED])
    if len(pauses) > WORDED:
        last_differs = pauses[-1] != pauses[WORDED - 1]
        shown += f", … {pauses[-1]}" if last_differs else " and so on"
    if is_unlimited:
        return f"Tried again forever: after {shown}; never given up."
    count = so_many(len(retries), "retry", "retries")
    return f"{count}: after {shown}; given up after {retries[-1].at_words}."


def _remarks(policy: RetryPolicy, retries: tuple[Try, ...]) -> list[str]:
    remarks = []
    if policy.jitter and retries:
        remarks.append(
            f"Each pause is up to {policy.jitter * 100:g} % longer, so that many failures do not "
            "come back at the same moment."
        )
    if policy.total is not None:
        total = written(policy.total.total_seconds())
        most = policy.max_retries
        if most is not None and len(retries) < most:
            remarks.append(
                f"The time limit of {total} comes first: only {len(retries):,} of {most:,} "
                "retries fit into it."
            )
        else:
            remarks.append(f"No try later than {total} after the first failure.")
    cap = policy.cap
    if any(a.pause == cap != b.pause for b, a in pairwise(retries)):
        remarks.append(f"A pause is never longer than {written(cap.total_seconds())}.")
    return remarks


def of_service(own: RetryRule | None, declared: RetryRule | None) -> str:
    """Say by whose rule the messages of a service are tried again, and what it says."""
    rule = own or declared
    if rule is None:
        return "As the queue says by which they come."
    whose = "Its own" if own is not None else "Declared by its handler"
    return f"{whose}: {_rule_words(rule)}"


def _rule_words(rule: RetryRule) -> str:
    policy = rule.over(RetryPolicy(max_retries=None))
    if rule.max_retries is not None:
        return retry_line(policy).words
    pauses = [retry.pause_words for retry in retry_line(policy).retries[:WORDED]]
    return f"after {', '.join(pauses)} and so on, as often as the queue says."
