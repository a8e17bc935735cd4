"""How the examples' traffic is told to end."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def until_told() -> Iterator[threading.Event]:
    """An event that SIGTERM and SIGINT set, so that what is under way is still sent."""
    over = threading.Event()
    stops = (signal.SIGTERM, signal.SIGINT)
    before = [signal.signal(stop, lambda *_: over.set()) for stop in stops]
    try:
        yield over
    finally:
        for stop, handler in zip(stops, before, strict=True):
            signal.signal(stop, handler)
