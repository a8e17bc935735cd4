"""What comes to idle queues of one JMS broker: looked for once a second, and left there."""

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping
from typing import Final, NamedTuple

from integration.amqp.browsing import Browser
from integration.amqp.errors import JmsError, JmsUnreachableError
from integration.amqp.queues import Source, browser_of, sources_of
from integration.amqp.waiting import Limits
from integration.models.provider import Provider

log = logging.getLogger(__name__)

Place = tuple[str, int]
"""a queue's number as a text, and the one partition that it has"""

# Whether there is anything at all.
ANY: Final = Limits(messages=0, size=1, seconds=2.0)
# A look costs the broker a link for a moment. Of many queues a round takes longer, and the pause
# between two of them is so many times as long as the last one took.
PAUSE_SECONDS: Final = 1.0
PAUSE_SHARE: Final = 4.0
# After so long without a whole round nothing is promised.
LATE_SECONDS: Final = 15.0
CLOSE_SECONDS: Final = 2.0


class _Watched(NamedTuple):
    offset: int
    source: Source


class JmsArrivals:
    """Watches queues of one broker; see crontasks.running.idle.Arrivals.

    A thread of its own looks: a broker that is slow holds up nobody who waits for others. Make it
    in the process that uses it, after any fork. `open_browser` raises JmsError.
    """

    def __init__(
        self,
        open_browser: Callable[[], Browser],
        sources: Callable[[Collection[int]], Mapping[int, Source]],
    ) -> None:
        self._open_browser, self._sources = open_browser, sources
        self._changed = threading.Condition()
        self._watched: dict[Place, _Watched] = {}
        self._came: set[Place] = set()
        self._empty: set[Place] = set()
        self._is_troubled = False
        self._round_at = time.monotonic()
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def watch(self, places: Mapping[Place, int]) -> None:
        """Watch exactly these (place -> next number). What they read is asked of the database."""
        sources = self._sources([int(number) for number, _ in places])
        watched = {
            place: _Watched(offset, sources[int(place[0])])
            for place, offset in places.items()
            if int(place[0]) in sources
        }
        with self._changed:
            self._empty = {p for p in self._empty if watched.get(p) == self._watched.get(p)}
            self._watched = watched
            self._came &= watched.keys()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="amqp idle", daemon=True)
            self._thread.start()

    def wait(self, seconds: float) -> set[Place]:
        """Return the places that have something; they are not watched any more. Never raises."""
        with self._changed:
            self._changed.wait_for(lambda: self._came, seconds)
            came, self._came = self._came, set()
            for place in came:
                self._watched.pop(place, None)
            return came

    def at_end(self) -> set[Place]:
        """Return the places where nothing waited at the last look."""
        with self._changed:
            return self._empty & self._watched.keys()

    def is_sure(self) -> bool:
        """Return whether every place could be looked at lately."""
        return not self._is_troubled and time.monotonic() - self._round_at < LATE_SECONDS

    def close(self) -> None:
        """End the thread, and wait for it a moment at most."""
        self._over.set()
        if self._thread is not None:
            self._thread.join(CLOSE_SECONDS)

    def _run(self) -> None:
        browser: Browser | None = None
        pause = 0.0
        while not self._over.wait(pause):
            began = time.monotonic()
            browser = self._round(browser)
            self._round_at = time.monotonic()
            pause = max(PAUSE_SECONDS, PAUSE_SHARE * (self._round_at - began))
        if browser is not None:
            browser.close()

    def _round(self, browser: Browser | None) -> Browser | None:
        """Look at each place once; return the connection, if it can be used again."""
        with self._changed:
            watched = dict(self._watched)
        is_troubled = False
        try:
            for place, one in watched.items():
                if self._over.is_set():
                    break
                browser = browser or self._open_browser()
                is_troubled |= not self._look(browser, place, one)
        except JmsError as problem:
            if not self._is_troubled:
                log.warning("Idle queues at a JMS broker are not watched: %s", problem)
            is_troubled, watched = True, {}
        except Exception:
            # Whatever it is: without this thread nothing that comes would be told of any more.
            if not self._is_troubled:
                log.exception("Idle queues at a JMS broker are not watched.")
            is_troubled, watched = True, {}
        self._is_troubled = is_troubled
        if browser is not None and not watched:
            # A connection on which nothing is said is ended by the broker.
            browser.close()
            browser = None
        return browser

    def _look(self, browser: Browser, place: Place, one: _Watched) -> bool:
        """Return False for a place at which the broker does not let us look.

        Raises JmsUnreachableError.
        """
        try:
            is_empty = browser.look(one.source.address, ANY, reader=one.source.reader).is_all
        except JmsUnreachableError:
            raise
        except JmsError:
            return False
        with self._changed:
            if self._watched.get(place) == one:
                (self._empty.add if is_empty else self._empty.discard)(place)
                if not is_empty:
                    self._came.add(place)
                    self._changed.notify_all()
        return True


def arrivals_of(provider: Provider) -> JmsArrivals:
    """Make what watches the idle queues of a broker."""
    return JmsArrivals(lambda: browser_of(provider, "idle"), sources_of)
