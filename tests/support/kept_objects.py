"""Lets Python's collector pass over what a tester keeps until its end: modules, tests, their trees.

It would walk through a million of them, time and again, for the few that a test leaves.
"""

import gc
from typing import Final

# So many new objects until the youngest are looked through; Python's own 700 are soon there.
NEW: Final = 100_000


def pytest_collection_finish() -> None:
    keep_the_rest()
    gc.set_threshold(NEW)


def keep_the_rest() -> None:
    """Free what is garbage; what is left is kept, and passed over from now on."""
    gc.collect()
    gc.freeze()
