"""What differs between two texts is found in a bounded time, and told with its place."""

from collections.abc import Callable

import pytest

from integration.documents.comparing import MOST_STEPS, hunks
from integration.documents.layout import differences
from integration.selectors.failures.diffs import CONTEXT, difference
from tests.support.growth import grows

pytestmark = pytest.mark.fast

Lines = list[str]


def objects(n: int, value: object = 0) -> Lines:
    """JSON text of n objects that look alike, with a value in the middle of it."""
    return [*["{", "},"] * (n // 2), f'"n": {value}', *["{", "},"] * (n // 2)]


def ends(n: int, value: object = 0) -> Lines:
    """The same with the value at both of its ends: all between lies in between."""
    return [f'"n": {value}', *["{", "},"] * n, f'"n": {value}']


def zeros(n: int, value: int = 0) -> Lines:
    """Zeros, alone or with another number after each."""
    return [line for m in range(1, n) for line in ("0,", f"{m},")] if value else ["0,"] * n


def shown(old: Lines, new: Lines) -> list[tuple[int, str]]:
    found = hunks(old, new, CONTEXT)
    assert found is not None
    return [(hunk.line, "".join(f"{sign}{text}" for sign, text in hunk.lines)) for hunk in found]


def test_what_differs_is_told_with_its_place_and_what_is_around_it() -> None:
    old = list("abcdefghijklmnop")
    assert shown(old, old) == []
    assert shown([], []) == []
    assert shown(old, list("abcdefXhijklmnop")) == [(4, " d e f-g+X h i j")]
    assert shown(old, list("Xbcdefghijklmno")) == [(1, "-a+X b c d"), (13, " m n o-p")]
    assert shown(list("aaaa"), list("aaaaaa")) == [(2, " a a a+a+a")]
    assert shown([], ["x"]) == [(1, "+x")]


def test_one_value_among_many_lines_that_are_equal_is_found_at_once() -> None:
    assert shown(objects(40_000), objects(40_000, 1)) == [(39_998, ' }, { },-"n": 0+"n": 1 { }, {')]
    assert not grows(lambda n: hunks(objects(n), objects(n, 1), CONTEXT), 10_000)


@pytest.mark.parametrize("texts", [ends, zeros])
def test_texts_whose_lines_repeat_too_often_are_not_compared(texts: Callable[..., Lines]) -> None:
    least = round(MOST_STEPS**0.5)
    assert hunks(texts(10), texts(10, 1), CONTEXT) is not None
    assert hunks(texts(2 * least), texts(2 * least, 1), CONTEXT) is None
    assert not grows(lambda n: hunks(texts(n), texts(n, 1), CONTEXT), 4 * least)


def test_a_page_is_told_that_they_are_not() -> None:
    old, new = ("\n".join(zeros(1_000, value)) for value in (0, 1))
    assert difference(old, new).is_long, "although a page may have so many lines"
    numbers = ",".join(str(n % 200) for n in range(40_000))
    assert differences(f"[0,{numbers},0]", f"[1,{numbers},1]") is None
    assert differences("[0,1]", "[0,2]") == [
        *((" ", "["), (" ", "  0,"), ("-", "  1"), ("+", "  2"), (" ", "]"))
    ]
