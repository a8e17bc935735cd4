"""The watch: a second thread beside the dispatcher tells people what went wrong, and samples.

Apart from the dispatcher: a look may take its time, and no start may wait for it. What is sent has
threads of its own.
"""

import logging
import os
import threading
import time
from typing import Any, Final

from django.db import Error, connections

from crontasks.dispatch.dispatcher import Dispatcher
from crontasks.leadership import Term
from crontasks.notices import book, conditions, lag_samples
from crontasks.notices.courier import Courier
from crontasks.running import history
from integration.restore.examining import look_if_noticed
from integration.store import deployments, samples
from integration.store.sessions import django_connection

ROUND_SECONDS: Final = 5.0
# After taking the lead the others get time to show a heartbeat before they are called dead.
GRACE_SECONDS: Final = 30.0
logger = logging.getLogger(__name__)


class Watcher(threading.Thread):
    """Looks every five seconds, only where the dispatcher leads."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        super().__init__(name="sluice-watch", daemon=True)
        self.dispatcher = dispatcher
        self.ending = threading.Event()
        self._led_rounds = 0
        self.courier = Courier()
        self._sampled_at = self._lag_sampled_at = float("-inf")
        self._session: Any = None
        os.register_at_fork(after_in_child=self._forget_in_child)

    def run(self) -> None:
        while not self.ending.wait(ROUND_SECONDS):
            term = self.dispatcher.leadership.term
            if term is None:
                self._led_rounds = 0
                self._close()
                continue
            self._led_rounds += 1
            try:
                self._open()
                self.round(term)
            except Error as e:
                logger.warning("the watch waits for the database", extra={"error": str(e)})
                self._close()
            except Exception:
                # The thread's outermost loop: one look that went wrong must not end them all.
                logger.exception("a round of the watch failed")
                self._close()
        self._close()

    def _open(self) -> None:
        """Have a session: it is kept, for the first look of a new one costs twice as much."""
        connection = django_connection()
        connection.ensure_connection()
        self._session = connection.connection

    def _close(self) -> None:
        self._session = None
        connections.close_all()

    def _forget_in_child(self) -> None:
        """Close a pool process's copy of the socket: it would hold the session open."""
        session, self._session = self._session, None
        if session is not None and not session.closed:
            os.close(session.fileno())

    def round(self, term: Term) -> None:
        # Where nothing was lost, nothing waits for a person either.
        look_if_noticed()
        # First, so that a look that takes its time makes no gap.
        self.sample()
        is_settled = self._led_rounds * ROUND_SECONDS > GRACE_SECONDS
        present = conditions.seen_by_workers(is_settled=is_settled)
        kinds = conditions.kinds_of_workers(is_settled=is_settled)
        book.settle(present, kinds, self.courier.wake, term=term)

    def sample(self) -> None:
        """Write down how every queue stands, and which runs were lost, every 15 seconds."""
        now = time.monotonic()
        if now - self._sampled_at < samples.SAMPLE_SECONDS - ROUND_SECONDS / 2:
            return
        with django_connection().cursor() as cursor:
            if not deployments.may_act(cursor):
                return
            samples.write(cursor)
            samples.prune(cursor)
            if now - self._lag_sampled_at >= lag_samples.EVERY_SECONDS - ROUND_SECONDS:
                lag_samples.write(cursor)
                self._lag_sampled_at = now
        self._sampled_at = now
        # A run whose process died is told of soon, not only by the hourly cleanup.
        history.mark_lost()

    def stop(self) -> None:
        self.ending.set()
