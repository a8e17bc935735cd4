"""Reasons for a run to end: its worker shuts down, or somebody waits for its slot or partitions.

With fewer queues than worker slots nobody waits and runs stay attached; else they take turns.
"""

import time
from collections.abc import Callable
from typing import Final

from django.db import Error

from crontasks.cursor import Cursor
from crontasks.running import celery_broker, shutdown
from crontasks.running.starts import HAS_WORK_TO_TAKE
from integration.delivery.report import YIELD
from integration.store.rescues import WANTED_SECONDS
from integration.store.sessions import django_connection
from integration.store.sharing import LOCKED

ASK_EVERY_SECONDS: Final = 0.18
# Heavier cron tasks wait for a slot as well; they are rare and give way to a short attachment.
_INSTANCE_WAITS_SECONDS: Final = 1.0
# While Celery's broker is away nobody could take the slot, nor start this queue again.
_KEPT_SECONDS: Final = 5.0
_DRAINED_SECONDS: Final = 0.1

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


def patience_seconds(waiting: int, *, drained: bool) -> float:
    """Return how long a queue waits before an attached run gives way: less when more wait.

    One waiting queue costs a run at work its place after 0.7 s; in a ring of six and more
    every turn ends as soon as it is drained, so that twenty queues on two slots come around
    in under five seconds. A run that only waits for messages goes as soon as it is plain that no
    free slot takes the request.
    """
    return _DRAINED_SECONDS if drained else max(0.2, 0.8 - 0.1 * waiting)


def another_queue_waits(cursor: Cursor, queue_id: int, *, drained: bool = False) -> bool:
    """Return whether another queue has waited long enough for a slot, or a rescue of this one.

    One indexed query. `drained`: the run that asks has read everything.
    """
    cursor.execute(_WAITING, (queue_id, queue_id))
    count, oldest_seconds = cursor.fetchone()
    return bool(count) and oldest_seconds >= patience_seconds(count, drained=drained)


class Stop:
    """The `stop` of one run: a reason to end, or None. Made for being called all the time.

    The engine asks it only after it has worked: a turn that ended before it did anything would
    let a ring of queues pass on and on.
    """

    def __init__(self, queue_id: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.queue_id = queue_id
        self.clock = clock
        self.asked_at: float | None = None
        self.kept_until = float("-inf")
        self.reason: str | None = None

    def __call__(self, *, drained: bool = False) -> str | None:
        if self.reason is None:
            self.reason = self._shutdown() or self._yield(drained=drained)
        return self.reason

    def _shutdown(self) -> str | None:
        return "the worker shuts down" if shutdown.is_announced() else None

    def _yield(self, *, drained: bool) -> str | None:
        now = self.clock()
        if self.asked_at is not None and now - self.asked_at < ASK_EVERY_SECONDS:
            return None
        if now < self.kept_until:
            return None
        self.asked_at = now
        try:
            with django_connection().cursor() as cursor:
                waits = another_queue_waits(cursor, self.queue_id, drained=drained)
        except Error:
            # The run meets the database's absence at its own work and knows what it means there.
            return None
        if waits and celery_broker.silence() is not None:
            self.kept_until = now + _KEPT_SECONDS
            return None
        return YIELD if waits else None
