"""One of many processes leads: a session of its own that holds one advisory lock.

The session is a raw autocommit connection, never Django's: that one is replaced silently, and a
lock would be gone without a word. It needs a direct session, not a transaction pooler.

A leader that died leaves its lock free. One that stands still (SIGSTOP, a frozen container, a disk
that does not answer) keeps it: its kernel goes on answering for its socket. So whoever finds the
lock held looks whether the leader does anything, and ends the session of one that does nothing.

That is safe whenever the leader comes back, wherever it was stopped:

- It leads nothing more before it has the lock again. What a leader does begins with a statement on
  that session, which is gone: psycopg.Error, and it resigns. It then stands as anybody does.
- What it had computed is harmless, written or sent late. Starts of queues, operations and bulk runs
  are requests, set by compare-and-set on that very session; a Celery task whose request was served
  meanwhile ends at once, or finds a lease. A tick names its moment, and a moment that is not newer
  than the last one is nothing; of periodic tasks that are not ours, the one at hand may be sent
  twice. Deliveries of notices are taken before they are sent. Samples are those of the moment.
- What it had seen is not: a notice that was opened meanwhile would be closed. A `Term` says whether
  the lead lasts, in the transaction that writes what was seen.
"""

import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Literal

import psycopg
from django.db import transaction

from crontasks.cursor import Cursor
from crontasks.errors import LeaderStandsStillError
from crontasks.hearts import ALIVE_SECONDS
from integration.store import locks
from integration.store.sessions import (
    Backend,
    Session,
    alias,
    backend_of,
    django_connection,
    raw_connection,
)

# A leader says something every two seconds at least; a broker that is down costs some more.
STILL_SECONDS: Final = ALIVE_SECONDS
# Without a heart: it may ask one broker after the other that does not answer.
HEARTLESS_STILL_SECONDS: Final = 60
LOOK_EVERY_SECONDS: Final = 2.0
# A session that was ended frees its locks as soon as the server comes to it.
TAKEOVER_TRIES: Final = 20
# Shorter than STILL_SECONDS: what a leader that is stopped was about to write is rolled back before
# another one leads.
IDLE_SECONDS: Final = 10
logger = logging.getLogger(__name__)

# A session waits for its client, also while that takes no answer: one whose statement takes its
# time, or waits for another's lock, does not. Who leads by its heartbeat does as well. Judged and
# ended in one statement, so that no other session is hit. Of another role's session PostgreSQL
# tells nothing, and it is not ours to end: NULL.
_END: Final = """
    SELECT CASE WHEN a.usename = current_user THEN pg_terminate_backend(a.pid) END
    FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
    WHERE {held} AND l.objid = 0 AND a.pid <> pg_backend_pid()
      AND CASE WHEN a.usename = current_user
          THEN a.wait_event_type = 'Client'
               AND a.state_change < clock_timestamp() - make_interval(secs => %(seconds)s)
          ELSE %(heart)s <> '' END
      AND NOT EXISTS (SELECT FROM crontasks_heartbeat h WHERE h.kind = %(heart)s AND h.leads
          AND h.seen_at > clock_timestamp() - make_interval(secs => %(seconds)s))"""
_LASTS: Final = """
    SELECT EXISTS (SELECT FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
        WHERE {held} AND l.objid = 0 AND a.pid = %s AND a.backend_start = %s)"""
_NOT_IDLE: Final = f"SET LOCAL idle_in_transaction_session_timeout = '{IDLE_SECONDS}s'"


@dataclass(frozen=True, slots=True)
class Term:
    """One time in the lead, from the lock to its loss."""

    lock: locks.LockClass
    backend: Backend

    def lasts(self, cursor: Cursor) -> bool:
        """Return whether it does, asked in the transaction that writes what its leader has seen."""
        cursor.execute(_LASTS.format(held=locks.of(self.lock)), self.backend)
        return bool(cursor.fetchone()[0])


@contextmanager
def ended_if_stopped() -> Iterator[Cursor]:
    """A transaction that PostgreSQL ends where its process is stopped in the middle of it.

    It neither commits what is old, nor holds its rows while another process leads.
    """
    with transaction.atomic(using=alias()), django_connection().cursor() as cursor:
        cursor.execute(_NOT_IDLE)
        yield cursor


class Leadership:
    """Stands for one lock. Belongs to the process and thread that made it.

    `heart` is the kind of the heartbeat that says it leads; what has none is judged by its session
    alone. A forked child inherits the socket, and as long as it lives the server would not notice
    that the parent died; so the child closes its copy at once (`forget_in_child`).
    """

    def __init__(
        self, lock: locks.LockClass, name: str, heart: Literal["worker", "beat", ""] = ""
    ) -> None:
        self.lock = lock
        self.name = name
        self.heart = heart
        self.term: Term | None = None
        self._session: Session | None = None
        self._looked_at = float("-inf")
        self._is_logged = False

    @property
    def is_held(self) -> bool:
        return self.term is not None

    def stand(self, *, asks_next: bool = False) -> bool:
        """Return whether this process leads now. Raises psycopg.Error when the database is away.

        Keeping the lead costs one round trip, which proves that the session still lives. Whoever
        `asks_next` sends a statement on it right away, and that is the proof.
        """
        try:
            session = self.session()
            if self.is_held:
                if not asks_next:
                    session.execute("SELECT 1")
            elif locks.take(session, (self.lock, 0)) or self._takes_over(session):
                self.term = Term(self.lock, backend_of(session.cursor()))
        except psycopg.Error:
            self.resign()
            raise
        return self.is_held

    def session(self) -> Session:
        """The session, opened if there is none. Raises psycopg.Error."""
        if self._session is None or self._session.closed:
            self.term = None
            self._session = raw_connection(self.name)
        return self._session

    def resign(self) -> None:
        """Give the lock back by leaving; may be called at any time."""
        self.term = None
        if self._session is not None:
            self._session.close()
            self._session = None

    def forget_in_child(self) -> None:
        """Close a forked child's copy of the socket without saying a word to the server."""
        session, self._session, self.term = self._session, None, None
        if session is not None and not session.closed:
            os.close(session.fileno())

    def _takes_over(self, session: Session) -> bool:
        """End the session of a leader that stands still, and take its lock."""
        now = time.monotonic()
        if now - self._looked_at < LOOK_EVERY_SECONDS:
            return False
        self._looked_at = now
        seconds = STILL_SECONDS if self.heart else HEARTLESS_STILL_SECONDS
        end = _END.format(held=locks.of(self.lock))
        try:
            ended = session.execute(end, {"heart": self.heart, "seconds": seconds}).fetchone()
        except psycopg.errors.InsufficientPrivilege as e:
            self._say_once(str(e))
            return False
        if ended is None:
            self._is_logged = False
            return False
        if ended[0] is None:
            self._say_once("its session is another role's")
            return False
        logger.warning("a leader stood still, its session was ended", extra={"lock": self.name})
        return locks.take(session, (self.lock, 0), tries=TAKEOVER_TRIES)

    def _say_once(self, why: str) -> None:
        if self._is_logged:
            return
        self._is_logged = True
        problem = LeaderStandsStillError()
        extra = {"code": problem.code, "lock": self.name, "error": why}
        logger.error("%s: %s", problem.code, problem, extra=extra)
