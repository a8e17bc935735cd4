"""Operations, the pure part: verdicts, moves, and a rate that is neither passed nor missed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from integration.policy.operations import (
    OPERATION_MOVES,
    ItemOutcome,
    Pace,
    Seen,
    verdict,
)
from integration.policy.states import ErrorState, OperationState
from integration.selectors.operations.operations import Progress

pytestmark = pytest.mark.fast
HELD = {ErrorState.HOLD}


@pytest.mark.parametrize(
    ("seen", "late_allowed", "outcome"),
    [
        (Seen(1, ErrorState.HOLD, late=False), False, ItemOutcome.DONE),
        (Seen(2, ErrorState.HOLD, late=False), True, ItemOutcome.MOVED_ON),
        (Seen(2, ErrorState.RESOLVED, late=False), True, ItemOutcome.MOVED_ON),
        (Seen(1, ErrorState.RESOLVED, late=False), True, ItemOutcome.WRONG_STATE),
        (Seen(1, ErrorState.HOLD, late=True), False, ItemOutcome.LATE),
        (Seen(1, ErrorState.HOLD, late=True), True, ItemOutcome.DONE),
    ],
)
def test_only_what_is_as_it_was_chosen_is_done(seen, late_allowed, outcome):
    assert verdict(seen, 1, expected=HELD, late_allowed=late_allowed) is outcome


def test_what_has_ended_never_goes_on():
    for state in (OperationState.DONE, OperationState.CANCELLED):
        assert not OPERATION_MOVES[state]
    assert set(OPERATION_MOVES) == set(OperationState)


def test_without_a_rate_as_many_as_fit_into_a_chunk():
    pace = Pace(None, 0.0)
    assert (pace.next(500), pace.wait_seconds()) == (500, 0.0)


@given(
    rate=st.integers(1, 5_000),
    steps=st.lists(st.floats(0.001, 3.0), min_size=1, max_size=60),
    idle=st.floats(0, 10_000),
)
def test_never_more_than_the_rate_and_one_seconds_worth(rate, steps, idle):
    now, taken, pace = 0.0, 0, Pace(rate, 0.0, idle)
    for step in steps:
        now += step
        pace.at(now, rate)
        count = pace.next(10_000)
        pace.took(count)
        taken += count
    assert taken <= rate * now + max(1, rate) + 1e-6


@given(rate=st.integers(1, 200))
def test_who_waits_as_told_gets_one_more(rate):
    pace = Pace(rate, 0.0, 0.0)
    now = pace.wait_seconds() * 1.000_001
    pace.at(now, rate)
    assert pace.next(1) == 1


def test_a_rate_that_is_changed_counts_from_then_on():
    pace = Pace(1, 0.0, 0.0)
    pace.at(0.5, 100)
    assert pace.next(1_000) == 50
    pace.took(50)
    pace.at(1.0, None)
    assert pace.next(1_000) == 1_000
    pace.at(2.0, 10)
    assert pace.next(1_000) == 10


def test_time_to_go():
    progress = Progress(100, left=100)
    assert progress.seconds_left(50) == 2
    assert progress.seconds_left(None) is None
    assert progress.seconds_left(0) is None
