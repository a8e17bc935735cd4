"""Python's cyclic garbage collector, as it suits those who carry messages by the thousand."""

import functools
import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def calm_collector() -> Iterator[None]:
    """Let the cyclic collector look less often while messages are carried.

    A batch allocates some thousand objects that all die with it, without cycles. At Python's
    own thresholds the collector walks everything that Django has loaded again and again; what
    is loaded when the first run begins is set aside for good, and young objects are looked at in
    larger portions. Later runs set nothing aside: what an earlier one left for the collector would
    be set aside with it, and never be freed where runs are short.
    """
    _set_aside_once()
    before = gc.get_threshold()
    gc.set_threshold(50_000, 20, 50)
    try:
        yield
    finally:
        gc.set_threshold(*before)


@functools.cache
def _set_aside_once() -> None:
    # To count what is set aside walks through all of it: 16 ms for what Django loads.
    if not gc.get_freeze_count():
        gc.freeze()
