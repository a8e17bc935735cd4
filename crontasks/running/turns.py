"""Reasons for a run to end: its worker shuts down, or somebody waits for its slot or partitions.

With fewer queues than worker slots nobody waits and runs stay attached; else they take turns, and
where idle queues are watched, a slot is kept free for the next message.
"""

import random
import time
from collections.abc import Callable
from typing import Final

from django.db import Error

from crontasks.cursor import Cursor
from crontasks.hearts import SERVES_QUEUES
from crontasks.running import celery_broker, shutdown
from crontasks.running.idle import IS_WATCHED, is_watched
from crontasks.running.starts import HAS_WORK_TO_TAKE
from integration.delivery.report import YIELD
from integration.store import locks
from integration.store.locks import LockClass
from integration.store.rescues import WANTED_SECONDS
from integration.store.sessions import django_connection
from integration.store.sharing import LOCKED
from integration.store.starts import IS_WANTED

ASK_EVERY_SECONDS: Final = 0.18
# Heavier cron tasks wait for a slot as well; they are rare and give way to a short attachment.
_INSTANCE_WAITS_SECONDS: Final = 1.0
# While Celery's broker is away nobody could take the slot, nor start this queue again.
_KEPT_SECONDS: Final = 5.0
_QUIET_PATIENCE_SECONDS: Final = 0.05
_QUIET_SECONDS: Final = 0.3
_SPARE_CHANCE: Final = 0.6

_WAITING: Final = f"""
    WITH {LOCKED}, waiting AS (
        SELECT extract(epoch FROM clock_timestamp() - q.start_requested_at) AS age
        FROM integration_queue q
        WHERE q.start_requested_at IS NOT NULL AND q.id <> %s AND q.enabled AND NOT q.paused
          AND {HAS_WORK_TO_TAKE}
        UNION ALL
        SELECT extract(epoch FROM clock_timestamp() - asked_at) - {_INSTANCE_WAITS_SECONDS}
        FROM crontasks_croninstance
        WHERE asked_at > clock_timestamp() - interval '60 s'
          AND queue_id IS NULL AND task <> 'relay'
        UNION ALL
        SELECT 1 FROM integration_queue q WHERE q.id = %s AND q.rescue_wanted_at
            > clock_timestamp() - make_interval(secs => {WANTED_SECONDS})
        UNION ALL
        SELECT extract(epoch FROM clock_timestamp() - asked_at) FROM integration_operation
        WHERE state = 'RUNNING' AND asked_at > clock_timestamp() - interval '60 s'
    )
    SELECT count(*), coalesce(max(age), 0)::float FROM waiting"""
# Whether each slot but one has a run, and there are queues beyond them whose messages start one.
# Other tasks need a slot now and then, and the next message may come before a run has given way.
_IS_CROWDED: Final = f"""
    WITH total AS (
        SELECT coalesce(sum(slots), 0) AS slots FROM crontasks_heartbeat WHERE {SERVES_QUEUES}
    )
    SELECT total.slots > 0
       AND (SELECT count(*) FROM ({locks.held(LockClass.RUN)}) runs)
           >= total.slots - (total.slots > 2)::int
       AND (SELECT count(*) FROM integration_queue q
            JOIN integration_provider v ON v.id = q.provider_id
            WHERE {IS_WANTED} AND {IS_WATCHED}) > total.slots
    FROM total"""


def patience_seconds(waiting: int, *, is_quiet: bool) -> float:
    """Return how long a queue waits before an attached run gives way: less when more wait.

    One waiting queue costs a run at work its place after 0.7 s; in a ring of six and more
    every turn ends as soon as it is drained, so that twenty queues on two slots come around
    in under five seconds. A run that only waits for messages goes as soon as it is plain that no
    free slot takes the request.
    """
    return _QUIET_PATIENCE_SECONDS if is_quiet else max(0.2, 0.8 - 0.1 * waiting)


def another_queue_waits(cursor: Cursor, queue_id: int, *, quiet_seconds: float = 0.0) -> bool:
    """Return whether another queue has waited long enough for a slot, or a rescue of this one.

    One indexed query. `quiet_seconds`: see integration.delivery.ports.Stop.
    """
    cursor.execute(_WAITING, (queue_id, queue_id))
    count, oldest_seconds = cursor.fetchone()
    return bool(count) and oldest_seconds >= patience_seconds(count, is_quiet=quiet_seconds > 0)


def is_crowded(cursor: Cursor) -> bool:
    """Return whether runs leave the next message to one of many idle queues no slot to spare."""
    cursor.execute(_IS_CROWDED)
    crowded: bool = cursor.fetchone()[0]
    return crowded


class Stop:
    """The `stop` of one run: a reason to end, or None. Made for being called all the time.

    The engine asks it only after it has worked: a turn that ended before it did anything would
    let a ring of queues pass on and on.
    """

    def __init__(
        self,
        queue_id: int,
        clock: Callable[[], float] = time.monotonic,
        roll: Callable[[], float] = random.random,
    ) -> None:
        self.queue_id = queue_id
        self.clock = clock
        self.roll = roll
        self.asked_at: float | None = None
        self.kept_until = float("-inf")
        self.reason: str | None = None

    def __call__(self, *, quiet_seconds: float = 0.0) -> str | None:
        if self.reason is None:
            self.reason = self._shutdown() or self._yield(quiet_seconds)
        return self.reason

    def _shutdown(self) -> str | None:
        return "the worker shuts down" if shutdown.is_announced() else None

    def _yield(self, quiet_seconds: float) -> str | None:
        now = self.clock()
        if self.asked_at is not None and now - self.asked_at < ASK_EVERY_SECONDS:
            return None
        if now < self.kept_until:
            return None
        self.asked_at = now
        try:
            with django_connection().cursor() as cursor:
                waits = another_queue_waits(cursor, self.queue_id, quiet_seconds=quiet_seconds)
                waits = waits or (
                    self._could_spare_its_slot(quiet_seconds)
                    and is_crowded(cursor)
                    # Without a watch the next run would take its place at once, for nothing.
                    and is_watched(cursor, self.queue_id)
                )
        except Error:
            # The run meets the database's absence at its own work and knows what it means there.
            return None
        if waits and celery_broker.silence() is not None:
            self.kept_until = now + _KEPT_SECONDS
            return None
        return YIELD if waits else None

    def _could_spare_its_slot(self, quiet_seconds: float) -> bool:
        """Return whether nothing has come for a while; by chance, so that not all runs go at once.

        A message that finds a free slot is read a third of a second earlier than one for which a
        run has to give way first.
        """
        return quiet_seconds >= _QUIET_SECONDS and self.roll() < _SPARE_CHANCE
