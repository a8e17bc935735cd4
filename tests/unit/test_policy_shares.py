"""Shares of a queue's partitions: they add up, differ by one at most, and need no agreement."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from integration.policy.shares import Runs, first_share, lacks_runs, share

pytestmark = pytest.mark.fast
WORKERS = st.none() | st.integers(1, 70)


@given(st.integers(0, 60), st.integers(1, 70), WORKERS)
def test_shares_of_all_runs_are_the_partitions(partitions, count, workers):
    shares = [share(Runs(partitions, count, rank), workers) for rank in range(count)]
    at_work = [each for each in shares if each]
    assert sum(shares) == partitions
    assert len(at_work) == min(partitions, count, workers or partitions)
    assert max(at_work, default=0) - min(at_work, default=0) <= 1


@given(st.integers(1, 60), st.integers(1, 70), WORKERS, st.integers(0, 69))
def test_a_run_takes_enough_at_first_for_whatever_its_rank_turns_out_to_be(
    partitions, count, workers, rank
):
    runs = Runs(partitions, count, min(rank, count - 1))
    assert first_share(runs, workers) >= max(1, share(runs, workers))


@pytest.mark.parametrize(
    ("partitions", "count", "workers", "expected"),
    [(4, 3, None, True), (4, 4, None, False), (4, 2, 2, False), (4, 1, 2, True), (1, 1, 8, False)],
)
def test_one_more_run_is_wanted_up_to_the_limit(partitions, count, workers, expected):
    assert lacks_runs(Runs(partitions, count, 0), workers) is expected
