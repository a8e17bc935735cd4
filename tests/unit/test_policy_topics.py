"""Consumer groups that a queue may name, and forwards that would come back."""

from collections.abc import Mapping, Sequence

import pytest

from integration.policy import forwards, groups
from integration.policy.forwards import TRAIL, Place, circle, trail_of

pytestmark = pytest.mark.fast


@pytest.mark.parametrize(
    ("name", "is_read", "has_protocol", "setting"),
    [
        ("", True, False, None),
        ("", False, False, None),
        ("orders", True, True, None),
        ("", True, True, None),
        ("", False, True, "group_protocol"),
        ("orders", True, False, "group_id"),
        ("sluice.relay", True, True, "group_id"),
    ],
)
def test_a_group_is_joined_by_an_inbound_queue_with_a_protocol(
    name: str, is_read: bool, has_protocol: bool, setting: str | None
) -> None:
    wrong = groups.mistake(name, is_read=is_read, has_protocol=has_protocol)
    assert (wrong and wrong[0]) == setting


def test_the_group_of_another_queue_is_taken() -> None:
    wrong = groups.taken("plant-orders", "plant", ["assets", "orders"])
    assert wrong is not None
    assert wrong[0] == "group_id"
    assert groups.taken("plant-orders", "plant", ["assets"]) is None


def forwarding(*pairs: tuple[str, str]) -> Mapping[Place, Sequence[tuple[str, Place]]]:
    made: dict[Place, list[tuple[str, Place]]] = {}
    for begin, end in pairs:
        made.setdefault(("k", begin), []).append((f"{begin}>{end}", ("k", end)))
    return made


def test_a_circle_is_named_by_its_shortest_way() -> None:
    there = forwarding(("a", "b"), ("b", "c"), ("c", "d"), ("d", "a"), ("c", "a"), ("b", "b"))
    assert circle(there, ("k", "a")) == ["a>b", "b>c", "c>a"]
    assert circle(there, ("k", "b")) == ["b>b"]


def test_what_never_comes_back_is_no_circle() -> None:
    # Two others feed each other: looked at once each.
    there = forwarding(("a", "b"), ("b", "c"), ("c", "b"), ("a", "d"))
    assert circle(there, ("k", "a")) == []
    assert circle(there, ("k", "d")) == []


def test_a_trail_is_read_from_every_header_of_its_name() -> None:
    headers = [(TRAIL, b"one,,two"), ("other", b"x"), (TRAIL, None), (TRAIL, b"thr\xffee")]
    assert trail_of(headers) == ["one", "two", "thr\ufffdee"]
    assert forwards.trail_of([]) == []
