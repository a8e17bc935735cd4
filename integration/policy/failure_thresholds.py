"""The rule by which a queue stops by itself instead of filling the error table overnight."""

from dataclasses import dataclass

from integration.counting import so_many


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureThresholds:
    """Limits of one queue: open error rows, failures of one cause in a row, parked of one key."""

    max_open_errors: int = 10_000
    failure_threshold: int = 100
    max_parked: int = 1_000


@dataclass(frozen=True, slots=True)
class ThresholdReached:
    """The verdict "stop reading": code and sentence for people."""

    code: str
    text: str


@dataclass(slots=True)
class FailureStreak:
    """The memory of one run: how many failures of one fingerprint came without a success."""

    fingerprint: str = ""
    in_a_row: int = 0

    def saw_success(self) -> None:
        self.fingerprint, self.in_a_row = "", 0

    def saw_failure(self, fingerprint: str) -> None:
        if fingerprint != self.fingerprint:
            self.fingerprint, self.in_a_row = fingerprint, 0
        self.in_a_row += 1


def verdict(
    policy: FailureThresholds,
    state: FailureStreak,
    *,
    open_errors: int,
    cause: str,
    parked: int = 0,
) -> ThresholdReached | None:
    """Return a verdict if the queue must stop.

    `open_errors` counts its open, unreleased rows, other than those that a bulk run rejected;
    `parked` those behind the failure of one key.
    """
    if open_errors >= policy.max_open_errors:
        return ThresholdReached(
            "TOO_MANY_OPEN_ERRORS",
            f"{so_many(open_errors, 'failure is', 'failures are')} open; the limit of this queue "
            f"is {policy.max_open_errors:,}.",
        )
    if parked > policy.max_parked:
        return ThresholdReached(
            "TOO_MANY_PARKED",
            f"More than {so_many(policy.max_parked, 'message')} of one key wait behind its first "
            "failure; that is the limit of this queue.",
        )
    if policy.failure_threshold and state.in_a_row >= policy.failure_threshold:
        return ThresholdReached(
            "SAME_FAILURE_IN_A_ROW",
            f"{so_many(state.in_a_row, 'message')} in a row failed for one cause: {cause}",
        )
    return None
