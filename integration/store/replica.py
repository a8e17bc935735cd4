"""The standby that pages read: whether it is there, and how far it is behind its primary.

How far is measured here, and not asked of the standby: that cannot tell whether its primary is idle
or out of its reach. So the primary's place in its journal is noted every two seconds, and the lag
is the age of the newest place that the standby has come to.
"""

import logging
import threading
import time
from collections import deque
from typing import Any, Final

from django.conf import settings
from django.db import Error, connections

logger = logging.getLogger(__name__)
LOOK_SECONDS: Final = 2.0
# After a failure it is left alone for so long: each try may take as long as a connection may.
AWAY_SECONDS: Final = 30.0
KEPT_PLACES: Final = 64
_WRITTEN: Final = "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint"
_REPLAYED: Final = """
SELECT system_identifier::text, pg_is_in_recovery(),
  CASE WHEN pg_is_in_recovery() THEN pg_wal_lsn_diff(pg_last_wal_replay_lsn(), '0/0')::bigint END
FROM pg_control_system()"""
_IDENTITY: Final = "SELECT system_identifier::text FROM pg_control_system()"


class Replica:
    """What this process knows of the standby; safe for several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.forget()

    def forget(self) -> None:
        """Look anew the next time, as a new process does."""
        self._places: deque[tuple[float, int]] = deque(maxlen=KEPT_PLACES)
        self._looked_at = float("-inf")
        self._away_until = float("-inf")
        self._lag: float | None = None

    def lag_seconds(self) -> float | None:
        """At most so many seconds behind; None where it is away, too far, or no standby of ours.

        Raises django.db.Error when the engine's own database is away.
        """
        if not settings.SLUICE_REPLICA or time.monotonic() < self._away_until:
            return None
        is_due = time.monotonic() - self._looked_at >= LOOK_SECONDS
        # Nobody waits for who looks: a standby that hangs holds up one request, and not all.
        if is_due and self._lock.acquire(blocking=False):
            try:
                now = time.monotonic()
                self._lag, self._looked_at = self._look(now), now
            finally:
                self._lock.release()
        if self._lag is None:
            return None
        # It may have stood still since then.
        lag = self._lag + time.monotonic() - self._looked_at
        return lag if lag <= settings.SLUICE_REPLICA_LAG_SECONDS else None

    def failed(self, why: Exception) -> None:
        """A page could not be read from it: leave it alone for a while."""
        self._leave(str(why).strip().partition("\n")[0])

    def _leave(self, why: str) -> None:
        logger.warning("Pages are read from the primary for %d s: %s", AWAY_SECONDS, why)
        self._away_until = time.monotonic() + AWAY_SECONDS
        self._places.clear()

    def _look(self, now: float) -> float | None:
        own = connections[settings.SLUICE_DATABASE]
        with own.cursor() as cursor:
            written = _first(cursor, _WRITTEN)[0]
            identity = _first(cursor, _IDENTITY)[0]
        try:
            with connections[settings.SLUICE_REPLICA].cursor() as cursor:
                found, is_standby, replayed = _first(cursor, _REPLAYED)
        except Error as e:
            self._leave(str(e).strip().partition("\n")[0])
            return None
        if not is_standby or found != identity:
            self._leave("SLUICE_DATABASE_REPLICA_URL leads to no standby of this database.")
            return None
        self._places.append((now, written))
        reached = [at for at, place in self._places if place <= replayed]
        if reached:
            # All that was written when it was noted is there; it may have come any time since.
            return now - reached[-1]
        return now - self._places[0][0] if len(self._places) > 1 else None


def _first(cursor: Any, sql: str) -> tuple[Any, ...]:
    cursor.execute(sql)
    row: tuple[Any, ...] = cursor.fetchone()
    return row


REPLICA: Final = Replica()
