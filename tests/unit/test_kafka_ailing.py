"""How many copies of a topic have to be in sync, as its settings say."""

from types import SimpleNamespace

import pytest

from integration.kafka.ailing import LEAST, least_of

pytestmark = pytest.mark.fast


@pytest.mark.parametrize(
    ("settings", "least"),
    [
        ({LEAST: SimpleNamespace(value="2")}, 2),
        ({LEAST: SimpleNamespace(value=2)}, 2),
        ({LEAST: SimpleNamespace(value=None)}, 0),
        ({LEAST: SimpleNamespace(value="two")}, 0),
        ({LEAST: None}, 0),
        ({}, 0),
        (None, 0),
    ],
)
def test_a_cluster_that_does_not_say_how_many_asks_for_none(
    settings: dict[str, object] | None, least: int
) -> None:
    assert least_of(settings) == least
