"""A count and its noun agree."""

import pytest

from integration.counting import so_many

pytestmark = pytest.mark.fast


@pytest.mark.parametrize(
    ("count", "forms", "told"),
    [
        (1, ("time",), "1 time"),
        (0, ("time",), "0 times"),
        (1_200, ("message",), "1,200 messages"),
        (1, ("try", "tries"), "1 try"),
        (2, ("try", "tries"), "2 tries"),
    ],
)
def test_a_count_is_told_with_the_noun_that_fits(
    count: int, forms: tuple[str, ...], told: str
) -> None:
    assert so_many(count, *forms) == told
