"""One of many processes leads: a session of its own that holds one advisory lock.

The session is a raw autocommit connection, never Django's: that one is replaced silently, and a
lock would be gone without a word. It needs a direct session, not a transaction pooler.
"""

import os
from typing import Any

import psycopg

from integration.store import locks
from integration.store.sessions import raw_connection


class Leadership:
    """Stands for one lock. Belongs to the process and thread that made it.

    A forked child inherits the socket, and as long as it lives the server would not notice that
    the parent died; so the child closes its copy at once (`forget_in_child`).
    """

    def __init__(self, lock: locks.LockClass, name: str) -> None:
        self.lock = lock
        self.name = name
        self.is_held = False
        self._session: psycopg.Connection[Any] | None = None

    def stand(self) -> bool:
        """Return whether this process leads now. Raises psycopg.Error when the database is away.

        Keeping the lead costs one round trip, which proves that the session still lives.
        """
        try:
            session = self.session()
            if self.is_held:
                session.execute("SELECT 1")
            else:
                row = session.execute(locks.TRY, (self.lock, 0)).fetchone()
                self.is_held = bool(row and row[0])
        except psycopg.Error:
            self.resign()
            raise
        return self.is_held

    def session(self) -> psycopg.Connection[Any]:
        """The session, opened if there is none. Raises psycopg.Error."""
        if self._session is None or self._session.closed:
            self.is_held = False
            self._session = raw_connection(self.name)
        return self._session

    def resign(self) -> None:
        """Give the lock back by leaving; may be called at any time."""
        self.is_held = False
        if self._session is not None:
            self._session.close()
            self._session = None

    def forget_in_child(self) -> None:
        """Close a forked child's copy of the socket without saying a word to the server."""
        session, self._session, self.is_held = self._session, None, False
        if session is not None and not session.closed:
            os.close(session.fileno())
