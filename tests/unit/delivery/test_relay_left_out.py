"""How long the relay leaves topics out that cannot be written, and how people are told."""

import pytest

from integration.delivery.relay.left_out import (
    FIRST_LOOK_SECONDS,
    LAST_LOOK_SECONDS,
    MOST_NAMED,
    LeftOut,
    hindering_text,
    leaves_out,
)

pytestmark = pytest.mark.fast


def test_looks_come_less_and_less_often_and_at_last_at_an_even_pace() -> None:
    left_out, now, pauses = LeftOut(), 0.0, []
    left_out.add({"ill": "why"}, now)
    for _ in range(5):
        pause = next(s for s in range(1, 100) if left_out.is_look_due(now + s))
        pauses.append(pause)
        now += pause
        left_out.note({"ill": "why"}, now)
    assert pauses == [FIRST_LOOK_SECONDS, 20, *[LAST_LOOK_SECONDS] * 3]


def test_what_is_well_again_is_left_out_no_longer_and_what_is_new_is_left_out_too() -> None:
    left_out = LeftOut()
    assert not left_out.is_look_due(1e9)
    left_out.add({"a": "x"}, 0)
    left_out.add({"b": "y"}, 1)
    assert set(left_out.why) == {"a", "b"}
    left_out.note({"b": "y"}, 20)
    assert list(left_out.why) == ["b"]
    assert "b (y)" in left_out.text
    left_out.note({}, 40)
    assert left_out.text == ""
    assert not left_out.is_look_due(1e9)


@pytest.mark.parametrize("ailing", [{"a": "x"}, {"a": "x", "b": "y"}])
def test_topics_that_are_left_out_are_told_from_a_relay_that_waits(ailing: dict[str, str]) -> None:
    left_out = LeftOut()
    left_out.add(ailing, 0)
    assert leaves_out(left_out.text)
    assert not leaves_out("NOT_ENOUGH_REPLICAS: Broker: Not enough in-sync replicas")
    assert not leaves_out(f"BROKER_UNREACHABLE: No answer.{hindering_text(ailing)}")
    assert all(f"{topic} ({why})" in hindering_text(ailing) for topic, why in ailing.items())
    assert not hindering_text({})


def test_of_many_topics_the_first_are_named_and_the_others_counted() -> None:
    ailing = {f"t-{number:04}": "why" for number in range(MOST_NAMED + 1_200)}
    for text in (LeftOut(ailing).text, hindering_text(ailing)):
        assert text.count("(why)") == MOST_NAMED
        assert f"t-{MOST_NAMED - 1:04} (why); and 1,200 more." in text
