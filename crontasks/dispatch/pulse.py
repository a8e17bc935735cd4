"""The heart of a worker that neither leads nor watches: the Spark driver's.

It works for hours in the one thread it has, and may be ended for its memory at any time: nobody's
start should depend on it.
"""

import logging
import threading

import psycopg

from crontasks.hearts import BEAT_EVERY_SECONDS, Heart
from integration.store.sessions import raw_connection

logger = logging.getLogger(__name__)


class Pulse(threading.Thread):
    """Beats every two seconds until it is stopped; a database that is away is waited for."""

    def __init__(self, heart: Heart) -> None:
        super().__init__(name="sluice-pulse", daemon=True)
        self.heart = heart
        self.ending = threading.Event()

    def run(self) -> None:
        while not self.ending.is_set():
            try:
                self._beat()
            except psycopg.Error as e:
                logger.warning("the heart waits for the database", extra={"error": str(e)})
                self.ending.wait(BEAT_EVERY_SECONDS)

    def stop(self) -> None:
        self.ending.set()

    def _beat(self) -> None:
        with raw_connection("sluice heart") as session, session.cursor() as cursor:
            while not self.ending.is_set():
                self.heart.beat(cursor, leads=False)
                self.ending.wait(BEAT_EVERY_SECONDS)
            self.heart.stop(cursor)
