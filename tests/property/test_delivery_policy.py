"""Backoff, failure threshold and rate for any policy: what the arithmetic promises."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from integration.policy import failure_thresholds, retry
from integration.policy.batching import MOST_TOGETHER, SAVEPOINTS_ABOVE, FailureRate, Mode
from integration.policy.failure import (
    WORDS_LIMIT,
    Failure,
    FailureClass,
    cause_of,
    cause_words,
)
from integration.policy.failure_thresholds import FailureStreak, FailureThresholds
from integration.policy.retry import LONGEST, Backoff, GiveUp, RetryAfter, RetryPolicy
from integration.policy.states import CLOSED, OPEN, TRANSITIONS, ErrorState, may_move

pytestmark = pytest.mark.fast

PAUSES = st.timedeltas(timedelta(0), timedelta(days=60))
ROLLS = st.floats(0, 1, exclude_max=True)
POLICIES = st.builds(
    RetryPolicy,
    max_retries=st.none() | st.integers(0, 1_000),
    backoff=st.sampled_from(Backoff),
    first=PAUSES,
    factor=st.floats(1, 100),
    delays=st.lists(PAUSES, max_size=5).map(tuple),
    cap=PAUSES,
    jitter=st.floats(0, 1),
    total=st.none() | PAUSES,
)


@given(POLICIES, st.integers(1, 100_000), ROLLS)
def test_a_pause_is_bounded_whatever_the_policy(policy, retry_no, roll):
    pause = retry.pause(policy, retry_no, roll)
    assert timedelta(0) <= pause <= LONGEST
    assert pause <= policy.cap * 2


@given(POLICIES, st.integers(1, 1_000), ROLLS)
def test_jitter_only_adds_and_no_more_than_its_share(policy, retry_no, roll):
    plain = retry.pause(policy, retry_no, 0.0)
    with_jitter = retry.pause(policy, retry_no, roll)
    assert with_jitter >= plain
    assert with_jitter <= plain * (1 + policy.jitter) + timedelta(microseconds=1)


@given(POLICIES, st.integers(1, 1_000), ROLLS)
def test_pauses_never_shrink_from_try_to_try(policy, retry_no, roll):
    if policy.backoff is Backoff.LIST:
        return
    assert retry.pause(policy, retry_no, roll) <= retry.pause(policy, retry_no + 1, roll)


@given(POLICIES, st.integers(0, 2_000), PAUSES, ROLLS)
def test_a_retry_is_within_the_count_and_the_total_time(policy, spent, since_first, roll):
    verdict = retry.decide(policy, spent=spent, since_first=since_first, roll=roll)
    if isinstance(verdict, RetryAfter):
        assert policy.max_retries is None or spent < policy.max_retries
        assert policy.total is None or since_first + verdict.delay <= policy.total
    else:
        assert isinstance(verdict, GiveUp)
        assert verdict.reason.endswith(".")


@pytest.mark.parametrize(
    ("policy", "pauses"),
    [
        ({"backoff": Backoff.CONSTANT, "first": 5}, [5, 5, 5, 5]),
        ({"backoff": Backoff.LINEAR, "first": 5}, [5, 10, 15, 20]),
        ({"backoff": Backoff.EXPONENTIAL, "first": 5}, [5, 10, 20, 40]),
        ({"backoff": Backoff.EXPONENTIAL, "first": 5, "cap": 15}, [5, 10, 15, 15]),
        ({"backoff": Backoff.LIST, "delays": [1, 60], "first": 5}, [1, 60, 60, 60]),
        ({"backoff": Backoff.LIST, "first": 5}, [5, 5, 5, 5]),
    ],
)
def test_how_the_pause_grows(policy, pauses):
    fields = dict(policy)
    for name in ("first", "cap"):
        if name in fields:
            fields[name] = timedelta(seconds=fields[name])
    fields["delays"] = tuple(timedelta(seconds=s) for s in fields.get("delays", ()))
    made = RetryPolicy(**fields)
    assert [retry.pause(made, n, 0.9).total_seconds() for n in (1, 2, 3, 4)] == pauses


@given(st.integers(0, 10_000), ROLLS)
def test_probes_of_an_outage_come_between_one_second_and_72(probes, roll):
    pause = retry.probe_pause(probes, roll)
    assert timedelta(seconds=1) <= pause <= timedelta(seconds=72)
    assert pause <= retry.probe_pause(probes + 1, roll)


@given(st.integers(0, 20), st.integers(1, 20), st.integers(0, 20), st.lists(st.sampled_from("ab.")))
def test_the_failure_thresholds_hold_exactly(after, limit, open_errors, story):
    state, in_a_row, last = FailureStreak(), 0, ""
    for seen in story:
        if seen == ".":
            state.saw_success()
            in_a_row, last = 0, ""
        else:
            state.saw_failure(seen)
            in_a_row, last = (in_a_row + 1 if seen == last else 1), seen
    policy = FailureThresholds(max_open_errors=limit, failure_threshold=after)
    verdict = failure_thresholds.verdict(policy, state, open_errors=open_errors, cause="why")
    if open_errors >= limit:
        assert verdict is not None
        assert verdict.code == "TOO_MANY_OPEN_ERRORS"
    elif after and in_a_row >= after:
        assert verdict is not None
        assert verdict.code == "SAME_FAILURE_IN_A_ROW"
        assert "why" in verdict.text
    else:
        assert verdict is None


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50))))
def test_the_failure_rate_stays_a_share_and_picks_the_mode(batches):
    rate = FailureRate()
    for failed, more in batches:
        rate.add(failed=failed, handled=failed + more)
        assert 0 <= rate.share <= 1
    assert (rate.mode() is Mode.SAVEPOINTS) == (rate.share > SAVEPOINTS_ABOVE)
    assert 1 <= rate.together() <= MOST_TOGETHER


@pytest.mark.parametrize(
    ("share", "together"), [(0, 32), (0.001, 32), (0.01, 10), (0.05, 4), (0.5, 1), (1, 1)]
)
def test_the_more_fail_the_fewer_share_a_savepoint(share, together):
    assert FailureRate(share).together() == together


@pytest.mark.parametrize(("failed", "mode"), [(1, Mode.OPTIMISTIC), (10, Mode.SAVEPOINTS)])
def test_one_in_a_hundred_takes_savepoints_and_one_in_a_thousand_does_not(failed, mode):
    rate = FailureRate()
    for _ in range(50):
        rate.add(failed=failed, handled=1_000)
    assert rate.mode() is mode


@given(st.uuids(), st.uuids(), st.integers(0), st.integers(0))
def test_failures_of_one_cause_share_a_fingerprint(first, second, n, m):
    def failure(id_: object, number: int) -> Failure:
        text = f"Asset '{id_}' has {number} meters, {id_}"
        return Failure(FailureClass.PERMANENT, "X", text)

    one, other = failure(first, n), failure(second, m)
    assert one.fingerprint == other.fingerprint
    assert cause_of(one) == cause_of(other)
    assert one.fingerprint != Failure(FailureClass.PERMANENT, "Y", one.text).fingerprint


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "The payload is not Base64 (Only base64 data is allowed).",
            "The payload is not Base64 (Only base64 data is allowed).",
        ),
        ("Not UTF-8 at byte 17, ISO-8859-1?", "Not UTF-8 at byte N, ISO-8859-1?"),
        ("Order A17 of 'plant 3' costs 12.50", "Order A… of '…' costs N"),
        ('The schema\'s "base64" was read 1,000 times.', 'The schema\'s "…" was read N times.'),
    ],
)
def test_a_cause_is_told_without_what_varies_and_with_names_whole(text: str, told: str) -> None:
    assert cause_words(text) == told
    assert cause_words(text, 1) == text, "of one failure alone nothing varies"


def test_a_cause_that_is_too_long_says_so() -> None:
    assert cause_words("x" * 1_000) == "x" * (WORDS_LIMIT - 1) + "…"


def test_every_state_has_its_moves_and_a_closed_one_opens_only_by_the_engine():
    assert set(TRANSITIONS) == set(ErrorState)
    assert frozenset(ErrorState) == OPEN | CLOSED
    assert may_move(ErrorState.RESOLVED, ErrorState.READY), "by a replay"
    assert not may_move(ErrorState.DELETED, ErrorState.READY)
    assert not may_move(ErrorState.HOLD, ErrorState.RETRY)
    for state in OPEN - {ErrorState.HOLD}:
        assert may_move(state, ErrorState.RESOLVED)
