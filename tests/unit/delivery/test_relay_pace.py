"""How the relay narrows a refused batch down to the rows that Kafka will not take."""

import pytest

from integration.delivery.relay.policy import MAX_ROWS, Pace

pytestmark = pytest.mark.fast


def tries(rows: int, bad: set[int]) -> tuple[list[int], int]:
    """The rows that end alone and refused, and how many batches are refused on the way."""
    pace, left, dead, refusals = Pace(), list(range(rows)), [], 0
    while left:
        batch = left[: pace.rows]
        index = next((n for n, row in enumerate(batch) if row in bad), None)
        if index is None:
            pace.after_sent()
            left = left[len(batch) :]
            continue
        refusals += 1
        if len(batch) > 1:
            pace.after_refused(len(batch), index)
            continue
        dead.append(left.pop(0))
        pace.after_buried()
    return dead, refusals


@pytest.mark.parametrize("place", [0, 1, 500, 998, 999])
def test_one_bad_row_costs_two_refusals(place: int) -> None:
    assert tries(1000, {place}) == ([place], 2)


def test_bad_rows_among_good_ones_cost_two_refusals_each() -> None:
    bad = {100, 300, 500, 700, 900}
    assert tries(1000, bad) == (sorted(bad), 10)


def test_where_all_rows_are_bad_each_is_soon_tried_alone() -> None:
    dead, refusals = tries(200, set(range(200)))
    assert dead == list(range(200))
    assert refusals <= 204


def test_the_pace_is_full_again_after_rows_went_out() -> None:
    pace = Pace()
    for _ in range(5):
        pace.after_buried()
    assert pace.rows == 1
    for _ in range(13):  # doubled from one row on
        pace.after_sent()
    assert pace.rows == MAX_ROWS
