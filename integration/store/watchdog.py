"""Ends its own process when a call hangs: a slot that hangs is a slot lost.

Only `faulthandler` can: its timer is a thread of C that needs no interpreter, so that it also
fires while a call lets no other thread run. It writes to the log where every thread stands. Our
own thread puts it off as long as all is well; without that thread the process ends.
"""

import faulthandler
import threading
from collections.abc import Callable
from typing import Final

# The lease is renewed each third of its time, so a process in which no thread runs loses it after
# two thirds at the earliest. It is ended before, and thus before anybody takes its partitions.
ENDS_AFTER_LEASES: Final = 0.6
PUT_OFF_EVERY_LEASES: Final = 0.1
SOONEST_END_LEASES: Final = ENDS_AFTER_LEASES - PUT_OFF_EVERY_LEASES
# By its number: Celery puts an object without one in the place of sys.stderr.
STANDARD_ERROR: Final = 2
_own: set[bool] = set()


def own_this_process() -> None:
    """Say that this process does nothing but runs, and is replaced when it ends."""
    _own.add(True)


def owns_this_process() -> bool:
    return bool(_own)


class Watchdog:
    """Puts the end of the process off, as long as nothing hangs."""

    def __init__(self, lease_seconds: float, hangs: Callable[[], bool]) -> None:
        self.lease_seconds = lease_seconds
        self.hangs = hangs
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)

    def start(self) -> None:
        self._put_off()
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._thread.join()
        faulthandler.cancel_dump_traceback_later()

    def _watch(self) -> None:
        while not self._over.wait(self.lease_seconds * PUT_OFF_EVERY_LEASES):
            if not self.hangs():
                self._put_off()

    def _put_off(self) -> None:
        seconds = self.lease_seconds * ENDS_AFTER_LEASES
        faulthandler.dump_traceback_later(seconds, exit=True, file=STANDARD_ERROR)
