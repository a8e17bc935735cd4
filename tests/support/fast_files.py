"""Keeps files from being loaded none of whose tests is wanted, by the mark `fast` or its lack.

Much of what `make check` would do otherwise is to import Spark, browsers and Kafka for tests that
it does not run. A file has fast tests if it, or a conftest.py beside it or above, names the mark,
and no others if it says so of all its tests.
"""

import re
from functools import cache
from pathlib import Path
from typing import Final

import pytest

FAST: Final = "fast"
_NAMED: Final = re.compile(rf"\bmark\.{FAST}\b")
_ALL_ARE: Final = re.compile(rf"^pytestmark = pytest\.mark\.{FAST}$", re.MULTILINE)
_TESTS: Final = Path(__file__).resolve().parents[1]


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Tell pytest to pass over a file, or that others may decide."""
    if not collection_path.match("test_*.py"):
        return None
    return True if is_passed_over(collection_path, config) else None


def is_passed_over(file: Path, config: pytest.Config) -> bool:
    """Return whether none of the file's tests is wanted."""
    wanted = config.getoption("markexpr")
    if wanted == FAST:
        return not may_be_fast(file)
    return wanted == f"not {FAST}" and _says(_ALL_ARE, file)


@cache
def may_be_fast(file: Path) -> bool:
    folders = [folder for folder in file.parents if folder.is_relative_to(_TESTS)]
    return any(_says(_NAMED, place) for place in (file, *(f / "conftest.py" for f in folders)))


@cache
def _says(what: re.Pattern[str], file: Path) -> bool:
    return file.exists() and what.search(file.read_text(encoding="utf-8")) is not None


def find_all(items: list[pytest.Item]) -> None:
    """Raise UsageError where a test is fast and its file would be passed over."""
    astray = [
        item.nodeid
        for item in items
        if item.get_closest_marker(FAST) is not None and not may_be_fast(item.path)
    ]
    if astray:
        raise pytest.UsageError(f"say pytest.mark.{FAST} in the file or its conftest.py: {astray}")
