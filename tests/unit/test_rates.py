"""What samples tell: pace, time to empty, and what they do not tell."""

from datetime import UTC, datetime, timedelta

import pytest

from console.layout.charts import chart
from integration.selectors.queues import rates
from integration.selectors.queues.rates import MINUTE, QUARTER, Pace, Point

pytestmark = pytest.mark.fast
BEGIN = datetime(2026, 3, 1, 12, tzinfo=UTC)


def points(*samples: tuple[float, int, int]) -> list[Point]:
    """Each is (seconds since the beginning, position, end)."""
    return [Point(BEGIN + timedelta(seconds=at), low, high) for at, low, high in samples]


def steady(seconds: int, incoming: int, outgoing: int) -> list[Point]:
    return points(*((at, outgoing * at, 1_000 + incoming * at) for at in range(0, seconds + 1, 15)))


def test_the_pace_is_the_difference_over_the_time() -> None:
    found = rates.rates(steady(1_200, incoming=4, outgoing=10))
    assert found.minute == found.quarter == Pace(4, 10)


def test_a_minute_forgets_what_was_before() -> None:
    rising = [*steady(900, 0, 0), *points(*((900 + at, at, 1_000) for at in (15, 30, 45, 60)))]
    assert rates.pace(rising, MINUTE) == Pace(0, 1)
    quarter = rates.pace(rising, QUARTER)
    assert quarter is not None
    assert 0 < quarter.outgoing < 0.1


def test_one_sample_tells_no_pace() -> None:
    assert rates.pace(points((0, 1, 2)), MINUTE) is None
    assert rates.pace([], MINUTE) is None


def test_a_gap_counts_neither_as_time_nor_as_messages() -> None:
    broken = points((0, 0, 0), (15, 15, 15), (600, 5_000, 5_000), (615, 5_015, 5_015))
    assert rates.pace(broken, QUARTER) == Pace(1, 1)
    assert [len(piece) for piece in rates.pieces(broken)] == [2, 2]


def test_a_topic_made_anew_is_no_negative_rate() -> None:
    anew = points((0, 900, 900), (15, 915, 915), (30, 0, 5), (45, 15, 20))
    assert rates.pace(anew, MINUTE) == Pace(1, 1)
    assert rates.pace(points((0, 9, 9), (15, 0, 0)), MINUTE) is None


@pytest.mark.parametrize(
    ("pace", "lag", "seconds"),
    [
        (Pace(1, 3), 100, 50),
        (Pace(1, 3), 0, 0),
        (Pace(3, 1), 100, None),
        (Pace(2, 2), 100, None),
        (Pace(1, 3), None, None),
    ],
)
def test_time_to_empty_is_told_only_where_it_shrinks(
    pace: Pace, lag: int | None, seconds: int | None
) -> None:
    assert pace.eta(lag) == (None if seconds is None else timedelta(seconds=seconds))


def test_a_line_is_broken_where_samples_are_missing_and_stays_inside() -> None:
    until = BEGIN + timedelta(minutes=15)
    lines = [
        [(BEGIN - timedelta(minutes=1), 0.0), (BEGIN + timedelta(minutes=1), 50.0)],
        [(until, 100.0)],
    ]
    drawn = chart(lines, until=until, within=QUARTER, text="words", size=(150, 20))
    assert drawn is not None
    assert drawn.paths == ("M0 19.0L10.0 10.0", "M150.0 1.0L150.0 1.0")
    assert (drawn.highest, drawn.text) == (100.0, "words")
    assert chart([], until=until, within=QUARTER, text="") is None


def test_a_line_of_nothing_lies_on_the_ground() -> None:
    drawn = chart([[(BEGIN, 0.0)]], until=BEGIN, within=QUARTER, text="", size=(10, 20))
    assert drawn is not None
    assert drawn.paths == ("M10.0 19L10.0 19",)
