"""An answer that is given again for a moment, whoever asks and however many ask at once."""

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Recent(Generic[T]):
    """Looks at most once in `seconds`; whoever comes while somebody looks waits for that look."""

    def __init__(self, look: Callable[[], T], seconds: float) -> None:
        self._look = look
        self._seconds = seconds
        self._lock = threading.Lock()
        self._kept: tuple[T, float] | None = None

    def get(self) -> T:
        with self._lock:
            if self._kept is None or time.monotonic() >= self._kept[1]:
                # Counted from the end: a look that took long must not be repeated by those waiting.
                found = self._look()
                self._kept = (found, time.monotonic() + self._seconds)
            return self._kept[0]

    def forget(self) -> None:
        """Look anew the next time."""
        with self._lock:
            self._kept = None
