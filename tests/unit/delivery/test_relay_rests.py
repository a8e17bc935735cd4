"""How long the relay leaves topics out that take nothing."""

import pytest

from integration.delivery.relay.policy import FIRST_REST_SECONDS, LAST_REST_SECONDS, Rests

pytestmark = pytest.mark.fast


def test_looks_come_less_and_less_often_and_at_last_at_an_even_pace() -> None:
    rests, now, pauses = Rests(), 0.0, []
    rests.begin({"ill": "why"}, now)
    for _ in range(5):
        pause = next(s for s in range(1, 100) if rests.are_over(now + s))
        pauses.append(pause)
        now += pause
        rests.note({"ill": "why"}, now)
    assert pauses == [FIRST_REST_SECONDS, 20, *[LAST_REST_SECONDS] * 3]


def test_what_is_well_again_rests_no_longer_and_what_is_new_rests_too() -> None:
    rests = Rests()
    assert not rests.are_over(1e9)
    rests.begin({"a": "x"}, 0)
    rests.begin({"b": "y"}, 1)
    assert set(rests.why) == {"a", "b"}
    rests.note({"b": "y"}, 20)
    assert list(rests.why) == ["b"]
    assert "b (y)" in rests.text
    rests.note({}, 40)
    assert rests.text == ""
    assert not rests.are_over(1e9)
