"""Durations as people write and read them."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from integration import durations

pytestmark = pytest.mark.fast


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90),
        ("10 s", 10),
        ("0.5 s", 0.5),
        ("1 h 30 min", 5_400),
        ("1h30m", 5_400),
        (" 2 Days ", 172_800),
        ("1 w", 604_800),
        ("0", 0),
    ],
)
def test_what_people_write_is_understood(text: str, seconds: float) -> None:
    assert durations.read(text) == seconds


@pytest.mark.parametrize("text", ["", " ", "soon", "10 parsecs", "-5 s", "1e9", "11 y", "s"])
def test_what_is_no_duration_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="10 s"):
        durations.read(text)


def test_ten_years_are_the_most() -> None:
    assert durations.read("3650 d") == durations.LONGEST_SECONDS
    with pytest.raises(ValueError, match="ten years"):
        durations.read("3651 d")


@given(st.integers(min_value=0, max_value=durations.LONGEST_SECONDS * 10))
def test_what_is_written_reads_back_exactly(tenths: int) -> None:
    assert durations.read(durations.written(tenths / 10)) == tenths / 10


def test_lists_and_rough_words() -> None:
    assert durations.read_list("10 s, 1 min,5 min,") == [10, 60, 300]
    assert durations.read_list("  ") == []
    assert durations.rough(0.4321) == "0.4 s"
    assert durations.rough(273_725) == "3 d 4 h"


@pytest.mark.parametrize(
    ("length", "words"),
    [
        (-5, "0 s"),
        (119.9, "119 s"),
        (120, "2 min"),
        (7_199, "119 min"),
        (timedelta(hours=47), "47 h"),
        (timedelta(days=2), "2 days"),
    ],
)
def test_what_passes_is_told_in_its_largest_unit(length: timedelta | float, words: str) -> None:
    assert durations.spoken(length) == words
