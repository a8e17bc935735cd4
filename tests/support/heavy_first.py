"""Lets the files that take longest begin first, so that no tester waits long for the other."""

from typing import Final

import pytest

# Folders by how long one of their files takes.
LONGEST_FIRST: Final = ("tests/spark/", "tests/crash/", "tests/e2e/", "tests/contract/")


def rank(nodeid: str) -> int:
    """0 for what is to begin first."""
    places = (place for place, folder in enumerate(LONGEST_FIRST) if nodeid.startswith(folder))
    return next(places, len(LONGEST_FIRST))


def heavy_first(items: list[pytest.Item]) -> None:
    """Sort in place; within a rank the order stays as chance (pytest-randomly) left it."""
    items.sort(key=lambda item: rank(item.nodeid))
