"""The order in which the files of a test run begin."""

from pathlib import Path

import pytest

from tests.support.heavy_first import BUSY, THEN, WAITING, in_order

pytestmark = pytest.mark.fast


def test_busy_and_waiting_files_take_turns_and_the_others_follow() -> None:
    files = [
        "tests/unit/test_a.py",
        "tests/spark/test_a.py",
        "tests/spark/test_b.py",
        "tests/e2e/test_a.py",
        "tests/crash/test_a.py",
        "tests/spark/test_c.py",
    ]
    assert in_order(files) == [
        "tests/spark/test_a.py",
        "tests/crash/test_a.py",
        "tests/spark/test_b.py",
        "tests/spark/test_c.py",
        "tests/e2e/test_a.py",
        "tests/unit/test_a.py",
    ]


@pytest.mark.parametrize("place", [BUSY, *WAITING, *THEN])
def test_every_place_that_is_named_is_there(place: str) -> None:
    assert Path(place).exists()
