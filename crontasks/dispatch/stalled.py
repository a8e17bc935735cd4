"""Ends a worker whose consumer stands still though the broker answers: a new one takes tasks.

As long as the broker does not answer nothing is ended, since a new process could do no more.
"""

import faulthandler
import logging
import os
import threading
import time
from collections.abc import Callable
from typing import Final

from celery.worker import state

from crontasks.errors import ConsumerStalledError
from crontasks.health.consumer import Signs
from crontasks.running import celery_broker

LOOK_EVERY_SECONDS: Final = 5.0
# Celery asks a broker that was away again after half a minute at the latest.
ENDS_AFTER_SECONDS: Final = 60.0
# As long as a call may usually take: runs end at a place of their own choice, none is cut off.
GRACE_SECONDS: Final = 75.0
# EX_SOFTWARE of sysexits.h: no supervisor takes it for a wanted end.
EXIT_CODE: Final = 70
# By its number: Celery puts an object without one in the place of sys.stderr.
STANDARD_ERROR: Final = 2
logger = logging.getLogger(__name__)


class StallWatch(threading.Thread):
    """Looks every few seconds. `end` asks what lives in this process to end, and runs to yield."""

    def __init__(self, signs: Signs, end: Callable[[], None]) -> None:
        super().__init__(name="sluice-consumer-watch", daemon=True)
        self.signs = signs
        self.end = end
        self.ending = threading.Event()
        self._answers_since: float | None = None
        self._is_logged = False

    def run(self) -> None:
        while not self.ending.wait(LOOK_EVERY_SECONDS):
            try:
                stalled = self.look(time.monotonic())
            except Exception:
                # The thread's outermost loop: one look that went wrong must not end them all.
                logger.exception("a look at the consumer failed")
            else:
                if stalled:
                    self._end_process()

    def look(self, now_seconds: float) -> bool:
        """Return whether to give the consumer up. `now_seconds` is any clock that only grows."""
        if self.signs.are_fresh():
            if self._is_logged:
                logger.warning("the consumer takes Celery tasks again")
            self._answers_since, self._is_logged = None, False
            return False
        if not self._is_logged:
            silent = round(self.signs.silent_seconds())
            logger.warning("the consumer takes no Celery tasks", extra={"silent_seconds": silent})
            self._is_logged = True
        if celery_broker.silence() is not None:
            self._answers_since = None
            return False
        if self._answers_since is None:
            self._answers_since = now_seconds
        return now_seconds - self._answers_since >= ENDS_AFTER_SECONDS

    def stop(self) -> None:
        self.ending.set()

    def _end_process(self) -> None:
        problem = ConsumerStalledError()
        silent = round(self.signs.silent_seconds())
        logger.critical(
            "%s: %s", problem.code, problem, extra={"code": problem.code, "silent_seconds": silent}
        )
        self.end()
        # What SIGTERM would set; that signal must not be waited for where the loop stands still.
        state.should_stop = EXIT_CODE  # type: ignore[assignment] # it is an exit code or None
        time.sleep(GRACE_SECONDS)
        faulthandler.dump_traceback(file=STANDARD_ERROR, all_threads=True)
        os._exit(EXIT_CODE)
