"""A retry policy in words and as a line: what the form of a queue promises."""

from datetime import timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from integration.policy.retry import Backoff, RetryPolicy, pause, probe_pause
from integration.selectors.setup.retry_line import SHOWN, retry_line

pytestmark = pytest.mark.fast


def seconds(*values: float) -> tuple[timedelta, ...]:
    return tuple(timedelta(seconds=value) for value in values)


LISTED = RetryPolicy(backoff=Backoff.LIST, delays=seconds(10, 60, 300))


def test_the_pauses_and_the_end_are_told() -> None:
    line = retry_line(LISTED)
    assert line.words == "3 retries: after 10 s, 1 min, 5 min; given up after 6 min 10 s."
    assert [one.at_words for one in line.shown] == ["10 s", "1 min 10 s", "6 min 10 s"]
    assert line.seconds == 370


def test_none_one_and_those_without_end() -> None:
    assert retry_line(RetryPolicy(max_retries=0)).words.startswith("No retries: the first")
    assert retry_line(RetryPolicy(max_retries=1)).words.startswith("1 retry: after 30 s;")
    forever = retry_line(RetryPolicy(max_retries=None))
    assert forever.words.startswith("Tried again forever")
    assert (forever.is_unlimited, forever.seconds) == (True, None)
    at_once = retry_line(RetryPolicy(max_retries=None, first=timedelta()))
    assert at_once.words.startswith("Tried again forever at once, without a pause")


def test_what_cuts_the_line_is_told() -> None:
    policy = RetryPolicy(
        max_retries=20,
        backoff=Backoff.EXPONENTIAL,
        jitter=0.2,
        cap=timedelta(hours=1),
        total=timedelta(hours=6),
    )
    line = retry_line(policy)
    told = " ".join(line.remarks)
    for words in ("up to 20 % longer", "limit of 6 h comes first", "11 of 20", "longer than 1 h"):
        assert words in told
    limited = retry_line(RetryPolicy(max_retries=None, total=timedelta(minutes=2)))
    assert not limited.is_unlimited
    assert limited.words.startswith("4 retries")


@given(st.integers(0, 1_000), st.sampled_from(Backoff), st.floats(0, 10_000))
def test_the_line_is_drawn_in_order_and_never_longer_than_it_can_be(
    retries: int, backoff: Backoff, first: float
) -> None:
    policy = RetryPolicy(
        max_retries=retries, backoff=backoff, first=timedelta(seconds=first), delays=seconds(5, 9)
    )
    line = retry_line(policy)
    assert len(line.retries) == retries
    assert len(line.shown) == min(retries, SHOWN)
    assert line.hidden == retries - len(line.shown)
    places = [one.x for one in line.shown]
    assert places == sorted(places)
    assert all(8 <= place <= 992 for place in places)


def steps(policy: RetryPolicy) -> list[int]:
    places = [8, *(one.x for one in retry_line(policy).shown)]
    return [after - before for before, after in pairwise(places)]


@given(st.integers(1, SHOWN), st.floats(0.1, 10_000))
def test_equal_pauses_are_drawn_equally_long(retries: int, pause: float) -> None:
    drawn = steps(RetryPolicy(max_retries=retries, first=timedelta(seconds=pause)))
    assert max(drawn) - min(drawn) <= 2
    assert sum(drawn) == 984


def test_a_longer_pause_is_the_longer_step() -> None:
    ten, minute, five_minutes = steps(LISTED)
    assert 100 < ten < minute < five_minutes
    policy = RetryPolicy(backoff=Backoff.LIST, delays=seconds(10, 60, 10, 60), max_retries=4)
    first, second, third, fourth = steps(policy)
    assert abs(first - third) <= 1
    assert abs(second - fourth) <= 1


def test_tries_left_out_are_one_longer_gap() -> None:
    drawn = steps(RetryPolicy(max_retries=50, first=timedelta(seconds=30)))
    assert len(drawn) == SHOWN
    assert max(drawn[:-1]) - min(drawn[:-1]) <= 2
    assert drawn[-1] > max(drawn[:-1])


def test_probes_of_an_outage_double_their_pauses_up_to_a_minute():
    pauses = [probe_pause(probes, 0.0).total_seconds() for probes in (0, 1, 2, 5, 6, 2_000)]
    assert pauses == [1, 2, 4, 32, 60, 60]
    assert probe_pause(6, 1.0) == timedelta(seconds=72)


def test_a_factor_beyond_all_numbers_ends_at_the_longest_pause() -> None:
    policy = RetryPolicy(backoff=Backoff.EXPONENTIAL, factor=1e10, max_retries=None)
    assert pause(policy, 65, 0.0) == policy.cap
