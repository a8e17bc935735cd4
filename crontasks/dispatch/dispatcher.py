"""The dispatcher: a thread in every worker's main process; one of them leads and starts queues."""

import logging
import os
import threading
import time
from typing import Final

import psycopg

from crontasks.bulk import sending
from crontasks.cursor import Cursor
from crontasks.dispatch import due
from crontasks.hearts import BEAT_EVERY_SECONDS, Heart
from crontasks.leadership import Leadership
from crontasks.running import operating, starts
from integration.store import deployments
from integration.store.locks import LockClass

# Twice a second: half a second to become the leader after the old one was killed, half a second
# to see whose partitions it left.
ROUND_SECONDS: Final = 0.5
# Where no queue is at work, waits or has what may become due, nobody's partitions can be left.
QUIET_SECONDS: Final = 1.0
# What is no matter of half a second: queues that are new, pauses that are over, and bulk runs that
# waited for a driver, or whose Celery task was lost.
THOROUGH_SECONDS: Final = 2.0
ACTOR: Final = "sluice"
_END_PAUSES: Final = """
WITH over AS (
    UPDATE integration_queue SET paused = false, pause_reason = '', paused_until = NULL
    WHERE paused AND paused_until <= clock_timestamp() RETURNING id, name
)
INSERT INTO integration_queuechange (queue_id, name, partition, at, actor, action, reason, effect)
SELECT id, name, NULL, clock_timestamp(), %s, 'resume', '', 'The time of the pause was over.'
FROM over"""
logger = logging.getLogger(__name__)


def end_pauses(cursor: Cursor) -> int:
    """Resume every queue whose pause is over by the database's clock; returns how many."""
    cursor.execute(_END_PAUSES, (ACTOR,))
    return int(cursor.rowcount)


class Dispatcher(threading.Thread):
    """Stands for election; when it leads, starts what is due.

    It lives in the main process only and does not touch Django's connections. Everything it
    does is one round trip or two on its own session.
    """

    def __init__(self, heart: Heart) -> None:
        super().__init__(name="sluice-dispatcher", daemon=True)
        self.heart = heart
        self.leadership = Leadership(LockClass.DISPATCHER, "sluice dispatcher", heart="worker")
        self.patience = due.Patience()
        self.ending = threading.Event()
        self._beat_at = self._thorough_at = float("-inf")
        self._is_logged = self._is_quiet = False
        os.register_at_fork(after_in_child=self.leadership.forget_in_child)

    def run(self) -> None:
        while not self.ending.is_set():
            try:
                self.round()
                self._is_logged = False
            except psycopg.Error as e:
                self._database_away(e)
            except Exception:
                # The thread's outermost loop: one round that went wrong must not end them all.
                logger.exception("a round of the dispatcher failed")
            self.ending.wait(QUIET_SECONDS if self._is_quiet else ROUND_SECONDS)
        self._leave()

    def round(self) -> list[int]:
        """One look: starts queues, bulk operations and bulk runs. Returns the queues.

        Raises psycopg.Error.
        """
        self._is_quiet = False
        was_leading = self.leadership.is_held
        leads = self.leadership.stand(asks_next=True)
        if leads and not was_leading:
            logger.info("dispatcher leads", extra={"node": self.heart.node})
        with self.leadership.session().cursor() as cursor:
            if time.monotonic() - self._beat_at >= BEAT_EVERY_SECONDS or leads != was_leading:
                self._beat_at = time.monotonic()
                self.heart.beat(cursor, leads=leads)
            return self._start_what_is_due(cursor) if leads else []

    def _start_what_is_due(self, cursor: Cursor) -> list[int]:
        """Ask for what there is to start, unless this database is not ours to work on."""
        now = time.monotonic()
        is_thorough = now - self._thorough_at >= THOROUGH_SECONDS
        if is_thorough:
            if not deployments.may_act(cursor):
                return []
            self._thorough_at = now
            end_pauses(cursor)
        found, self._is_quiet = due.find(cursor, is_thorough=is_thorough)
        if found and not is_thorough and not deployments.may_act(cursor):
            return []
        ripe = self.patience.select(found, now)
        answers = {queue_id: starts.request(cursor, queue_id) for queue_id in ripe}
        requests = {queue_id: at for queue_id, at in answers.items() if at is not None}
        if starts.send(cursor, requests):
            # A broker that is down costs seconds each time it is asked, and our heart's beat.
            operating.ask(cursor)
            if is_thorough:
                sending.look(cursor)
        return list(requests)

    def stop(self) -> None:
        """Ask the thread to end; it gives its lead back within half a second."""
        self.ending.set()

    def _leave(self) -> None:
        try:
            with self.leadership.session().cursor() as cursor:
                self.heart.stop(cursor)
        except psycopg.Error as e:
            logger.info("left without a word, the database is away", extra={"error": str(e)})
        finally:
            self.leadership.resign()

    def _database_away(self, error: psycopg.Error) -> None:
        self.leadership.resign()
        if not self._is_logged:
            logger.warning("the dispatcher waits for the database", extra={"error": str(error)})
        self._is_logged = True
