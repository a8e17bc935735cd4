"""What a run leaves for the collector is freed, also where one run follows another at once."""

import gc
import weakref

import pytest

from integration.delivery.garbage_collection import calm_collector

pytestmark = pytest.mark.fast


class Knot:
    """Refers to itself, as clients do that know whom they call."""

    def __init__(self) -> None:
        self.own = self


def test_what_a_run_left_is_freed_while_the_next_one_lasts() -> None:
    with calm_collector():
        left = weakref.ref(Knot())
    with calm_collector():
        gc.collect()
        assert left() is None


def test_the_thresholds_are_as_before_afterwards() -> None:
    before = gc.get_threshold()
    with calm_collector():
        assert gc.get_threshold() != before
    assert gc.get_threshold() == before
