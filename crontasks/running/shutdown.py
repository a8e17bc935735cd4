"""Notice to a pool process that its worker shuts down.

Celery tells only the worker's main process; a warm shutdown then waits for the running Celery
tasks without limit. One byte of memory shared across the fork tells them. It is written in a
signal handler, so it is neither locked nor logged.
"""

import mmap
import os
from typing import Final

_RUNNING: Final = 0
_ENDING: Final = 1
_shared: mmap.mmap | None = None
_parent: int | None = None


def share() -> None:
    """Called in the worker's main process before it forks its pool."""
    global _shared, _parent
    _shared, _parent = mmap.mmap(-1, 1), os.getpid()


def announce() -> None:
    """Called in the worker's main process when it begins to shut down."""
    if _shared is not None:
        _shared[0] = _ENDING


def is_announced() -> bool:
    """Return whether this process should end its work: its worker shuts down, or is gone."""
    if _shared is None:
        return False
    if _shared[0] != _RUNNING:
        return True
    return os.getpid() != _parent and os.getppid() != _parent
