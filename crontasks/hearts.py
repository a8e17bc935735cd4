"""Heartbeats: written by the processes themselves, judged by the database's clock."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.utils import timezone

from crontasks.cursor import Cursor
from integration.worker import worker_name

BEAT_EVERY_SECONDS: Final = 2.0
ALIVE_SECONDS: Final = 15
# SQL condition: the heartbeat is that of a living worker whose slots are for runs of queues.
SERVES_QUEUES: Final = f"""(kind = 'worker' AND 'celery' = ANY(string_to_array(queues, ','))
    AND seen_at > clock_timestamp() - make_interval(secs => {ALIVE_SECONDS}))"""

_WRITE: Final = """
    INSERT INTO crontasks_heartbeat AS h
        (kind, node, pid, started_at, seen_at, leads, slots, queues, clock_skew_seconds)
    VALUES (%s, %s, %s, clock_timestamp(), clock_timestamp(), %s, %s, %s,
            %s - extract(epoch FROM clock_timestamp()))
    ON CONFLICT (kind, node) DO UPDATE SET
        started_at = CASE WHEN h.pid = excluded.pid THEN h.started_at ELSE excluded.started_at END,
        pid = excluded.pid, seen_at = excluded.seen_at, leads = excluded.leads,
        slots = excluded.slots, queues = excluded.queues,
        clock_skew_seconds = excluded.clock_skew_seconds
    RETURNING seen_at"""
_REMOVE: Final = "DELETE FROM crontasks_heartbeat WHERE kind = %s AND node = %s AND pid = %s"
_ALIVE: Final = """
    SELECT count(*) FROM crontasks_heartbeat
    WHERE kind = %s AND seen_at > clock_timestamp() - make_interval(secs => %s)"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heart:
    """The identity of a process.

    `takes` tells whether a worker takes Celery tasks. While it does not, it lives and has no slots;
    nobody counts on it.
    """

    kind: str
    node: str
    slots: int = 0
    queues: str = ""
    takes: Callable[[], bool] = lambda: True

    def beat(self, cursor: Cursor, *, leads: bool) -> datetime:
        """Write that it lives, and whether it leads; returns the time by the database's clock."""
        # The host's own clock is wanted here: its distance from the database's is what is stored.
        host_time = time.time()
        slots = self.slots if self.takes() else 0
        cursor.execute(
            _WRITE, (self.kind, self.node, os.getpid(), leads, slots, self.queues, host_time)
        )
        seen_at: datetime = cursor.fetchone()[0]
        return seen_at

    def stop(self, cursor: Cursor) -> None:
        """A clean end is not a death: nobody has to hear of it."""
        cursor.execute(_REMOVE, (self.kind, self.node, os.getpid()))


class DatabaseClock:
    """The database's clock, as a heartbeat has told it, carried on by one of this host.

    That one only grows: whoever sets the host's clock moves nothing here. It is behind by the
    way of the last answer and never ahead. Until it is told, it is the host's own.
    """

    def __init__(self) -> None:
        self._told: tuple[datetime, float] | None = None

    def tell(self, now: datetime) -> None:
        """Take over what the database has just answered."""
        self._told = now, time.monotonic()

    def now(self) -> datetime:
        if self._told is None:
            return timezone.now()
        told, at = self._told
        return told + timedelta(seconds=time.monotonic() - at)


def worker_node(hostname: str) -> str:
    """Two workers started without -n have one name; the pid keeps their heartbeats apart."""
    return f"{hostname}:{os.getpid()}"


def beat_node() -> str:
    return f"beat@{worker_name()}"


def are_alive(cursor: Cursor, kind: str) -> bool:
    """Return whether any process of this kind was seen in the last 15 s, also one without tasks."""
    cursor.execute(_ALIVE, (kind, ALIVE_SECONDS))
    count: int = cursor.fetchone()[0]
    return count > 0
