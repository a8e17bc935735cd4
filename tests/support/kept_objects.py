"""Lets Python's collector pass over what a tester keeps until its end: modules, tests, their trees.

It would walk through a million of them, time and again, for the few that a test leaves. While they
are loaded it does not look at all: nearly everything that is made then is kept. A plugin by name,
for Django is loaded before any conftest.py.
"""

import gc
from collections.abc import Generator
from typing import Final

import pytest

# So many new objects until the youngest are looked through; Python's own 700 are soon there.
NEW: Final = 100_000


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests() -> Generator[None, object, object]:
    gc.disable()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    keep_the_rest()
    gc.set_threshold(NEW)


def keep_the_rest() -> None:
    """Free what is garbage; what is left is kept, and passed over from now on."""
    gc.collect()
    gc.freeze()
