"""Not starting a queue again and again for a cause that a start does not take away. Pure."""

from collections.abc import Iterable
from typing import Final

from crontasks.dispatch.due import Due

FIRST_PAUSE_SECONDS: Final = 1.0
LONGEST_PAUSE_SECONDS: Final = 30.0


class Patience:
    """Remembers causes. A new one is served at once, an unchanged one at growing intervals."""

    def __init__(self) -> None:
        self._served: dict[Due, tuple[float, float]] = {}

    def select(self, due: Iterable[Due], now_seconds: float) -> list[int]:
        """Queue ids to start now, each once. `now_seconds` is any clock that only grows."""
        found = list(due)
        ripe = [one for one in found if self._is_ripe(one, now_seconds)]
        for one in ripe:
            self._serve(one, now_seconds)
        self._forget(set(found), now_seconds)
        return sorted({one.queue_id for one in ripe})

    def _is_ripe(self, one: Due, now_seconds: float) -> bool:
        served = self._served.get(one)
        return served is None or now_seconds >= served[0]

    def _serve(self, one: Due, now_seconds: float) -> None:
        pause = FIRST_PAUSE_SECONDS
        if one in self._served:
            pause = min(self._served[one][1] * 2, LONGEST_PAUSE_SECONDS)
        self._served[one] = (now_seconds + pause, pause)

    def _forget(self, present: set[Due], now_seconds: float) -> None:
        # A cause is absent while its start stands or runs; one that stays away is over.
        self._served = {
            one: (until, pause)
            for one, (until, pause) in self._served.items()
            if one in present or now_seconds < until + LONGEST_PAUSE_SECONDS
        }
