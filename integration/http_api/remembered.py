"""The short memory of a process, so that a post costs no query for what rarely changes."""

import time
from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

KEPT_SECONDS: Final = 1.0
MOST: Final = 2_000
Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Remembered(Generic[Key, Value]):
    """Answers of a question, each for a second.

    What an administrator changes holds a second later at the latest, in every process: nothing
    else has to be said. Threads may ask at once; at worst both ask the database. `None` is
    not kept, so that strangers' guesses take no room.
    """

    def __init__(self, ask: Callable[[Key], Value | None]) -> None:
        self._ask = ask
        self._known: dict[Key, tuple[float, Value]] = {}

    def get(self, key: Key) -> Value | None:
        now = time.monotonic()
        entry = self._known.get(key)
        if entry is not None and entry[0] > now:
            return entry[1]
        answer = self._ask(key)
        if answer is None:
            self._known.pop(key, None)
            return None
        if len(self._known) >= MOST:
            self._known.clear()
        self._known[key] = now + KEPT_SECONDS, answer
        return answer

    def forget(self) -> None:
        self._known.clear()
