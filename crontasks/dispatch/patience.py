"""Not starting a queue again and again for a cause that a start does not take away. Pure."""

from collections import deque
from collections.abc import Iterable
from typing import Final

from crontasks.dispatch.due import Due

FIRST_PAUSE_SECONDS: Final = 1.0
LONGEST_PAUSE_SECONDS: Final = 30.0
# A run that dies at every start brings a new cause each time: so many in so long, then a rest.
MOST_STARTS: Final = 5
WINDOW_SECONDS: Final = 10.0


class Patience:
    """Remembers causes. A new one is served at once, an unchanged one at growing intervals."""

    def __init__(self) -> None:
        self._served: dict[Due, tuple[float, float]] = {}
        self._starts: dict[int, deque[float]] = {}

    def select(self, due: Iterable[Due], now_seconds: float) -> list[int]:
        """Queue ids to start now, each once. `now_seconds` is any clock that only grows."""
        found = [one for one in due if not self._is_spent(one.queue_id, now_seconds)]
        ripe = [one for one in found if self._is_ripe(one, now_seconds)]
        for one in ripe:
            self._serve(one, now_seconds)
        self._forget(set(found), now_seconds)
        started = sorted({one.queue_id for one in ripe})
        for queue_id in started:
            self._starts.setdefault(queue_id, deque(maxlen=MOST_STARTS)).append(now_seconds)
        return started

    def _is_spent(self, queue_id: int, now_seconds: float) -> bool:
        starts = self._starts.get(queue_id)
        if starts is None or len(starts) < MOST_STARTS:
            return False
        return now_seconds - starts[0] < WINDOW_SECONDS

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
        self._starts = {
            queue_id: starts
            for queue_id, starts in self._starts.items()
            if now_seconds - starts[-1] < WINDOW_SECONDS
        }
