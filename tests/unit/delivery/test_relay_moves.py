"""Whether the last batch of a relay is in another cluster than the one it writes to."""

import pytest

from integration.delivery.relay.policy import has_moved, is_another

pytestmark = pytest.mark.fast


@pytest.mark.parametrize("is_changed", [False, True])
@pytest.mark.parametrize(
    ("former", "now", "moved"), [("a", "a", False), ("a", "b", True)], ids=["the same", "another"]
)
def test_ids_decide_whatever_else_was_changed(
    former: str, now: str, *, moved: bool, is_changed: bool
) -> None:
    assert has_moved(former, now, is_provider_changed=is_changed) is moved


@pytest.mark.parametrize("is_changed", [False, True])
@pytest.mark.parametrize(("former", "now"), [("", "b"), ("a", ""), ("", "")])
def test_without_an_id_a_change_of_the_provider_decides(
    former: str, now: str, *, is_changed: bool
) -> None:
    assert has_moved(former, now, is_provider_changed=is_changed) is is_changed


@pytest.mark.parametrize(
    ("former", "now", "another"),
    [("a", "b", True), ("a", "a", False), ("", "b", False), ("a", "", False), ("", "", False)],
)
def test_two_clusters_are_told_apart_by_ids_alone(former: str, now: str, *, another: bool) -> None:
    assert is_another(former, now) is another
