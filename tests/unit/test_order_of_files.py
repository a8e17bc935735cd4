"""The order in which the files of a test run begin."""

from itertools import chain
from pathlib import Path

import pytest

from tests.support.heavy_first import BUSY, THEN, WAITING, in_order
from tests.support.kept_together import APART, SHARED, group_of

pytestmark = pytest.mark.fast


def test_what_is_busy_begins_then_what_waits_or_is_long_and_the_others_follow() -> None:
    files = [
        "tests/unit/test_a.py",
        "tests/contract/test_a.py",
        THEN[0],
        APART[0],
        "tests/spark/test_a.py",
        "tests/spark/test_b.py",
        "tests/e2e/test_a.py",
        "tests/crash/test_a.py",
        "tests/spark/test_c.py",
    ]
    assert in_order(files) == [
        "tests/spark/test_a.py",
        "tests/spark/test_b.py",
        "tests/spark/test_c.py",
        "tests/e2e/test_a.py",
        "tests/crash/test_a.py",
        APART[0],
        THEN[0],
        "tests/contract/test_a.py",
        "tests/unit/test_a.py",
    ]


def test_what_is_shared_stays_on_one_tester() -> None:
    with_a_browser = {group_of("tests/e2e/test_a.py"), group_of("tests/e2e/test_b.py")}
    assert len(with_a_browser) == 1
    assert group_of("tests/e2e/test_bulk_import.py") == group_of("tests/spark/test_a.py")
    assert group_of("tests/unit/test_a.py") == "tests/unit/test_a.py"
    assert {group_of(file) for file in APART} == set(APART)


@pytest.mark.parametrize("place", [*BUSY, *APART, *WAITING, *THEN, *chain(*SHARED.values())])
def test_every_place_that_is_named_is_there(place: str) -> None:
    assert Path(place).exists()
