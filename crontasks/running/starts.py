"""Asking for a run of a queue: one standing request per queue, by compare-and-set.

A request is `start_requested_at` of the queue's row, and the Celery task carries that very time:
one whose time is no longer the queue's is left over and ends at once. Without that, every Celery
task sent again would live on from yield to yield, and a ring of queues would slow down more and
more. The run clears the request once it owns a partition; a run that finds every lock held leaves
it standing. It is sent again after ten seconds, then ever more rarely, so a lost Celery task costs
ten seconds and nothing else; one that the broker did not take goes out at the dispatcher's next
look. It keeps its time then, and whichever task comes first serves it: with a new time, a thousand
queues that start together would each be out of date before a slot came to them, and none would
run. The Celery task has no time to expire: that would be told by the clock of one host and judged
by another's, and a worker whose clock is ahead would throw every start away.
"""

import logging
from collections.abc import Mapping
from datetime import datetime
from typing import Final

from django.db import transaction
from kombu.exceptions import OperationalError

from crontasks.celery_app import app
from crontasks.cursor import Cursor
from crontasks.task_names import RUN_QUEUE
from integration.store.sessions import alias, django_connection, fetch_all
from integration.store.sharing import IS_FREE, IS_HELP_WANTED, LOCKED
from integration.store.starts import IS_WANTED, RESEND_SECONDS

RARELY_SECONDS: Final = 120
logger = logging.getLogger(__name__)

HAS_WORK_TO_TAKE: Final = f"""(
        NOT EXISTS (SELECT 1 FROM integration_queuepartition p WHERE p.queue_id = q.id)
        OR EXISTS (SELECT 1 FROM integration_queuepartition p WHERE p.queue_id = q.id AND {IS_FREE})
    )"""

# A request was sent when that was noted on the queue's instance; one that a person's decision left
# (integration.actions) is newer than that note, of one that the broker did not take there is none:
# both go out at the dispatcher's next look. One that stands for long waits for a slot and is not
# lost: sent again ever more rarely, a thousand queues that start together do not bury each other's
# runs under Celery tasks that are out of date.
MAY_ASK: Final = f"""(
        q.start_requested_at IS NULL
        OR NOT EXISTS (
            SELECT 1 FROM crontasks_croninstance i
            WHERE i.queue_id = q.id AND i.asked_at >= q.start_requested_at
              AND i.asked_at > clock_timestamp() - least(make_interval(secs => {RARELY_SECONDS}),
                  greatest(make_interval(secs => {RESEND_SECONDS}),
                           i.asked_at - q.start_requested_at))
        )
    )"""
# A request that nobody took is sent again after ten seconds; the wait goes on as long as no run
# took a partition meanwhile.
_ASK: Final = f"""
    WITH {LOCKED}, was AS (
        SELECT q.start_requested_at AS at, (
            SELECT max(s.taken_at) FROM integration_partitionlease s
            JOIN integration_queuepartition p ON p.id = s.partition_id
            WHERE p.queue_id = q.id AND NOT s.rescues
        ) AS taken_at
        FROM integration_queue q WHERE q.id = %s
    ), asked AS (
        UPDATE integration_queue q
        SET start_requested_at = coalesce(q.start_requested_at, clock_timestamp())
        WHERE q.id = %s AND {IS_WANTED} AND {MAY_ASK}
          AND (%s OR {IS_HELP_WANTED} OR {HAS_WORK_TO_TAKE})
        RETURNING q.id, q.start_requested_at
    ), noted AS (
        UPDATE crontasks_croninstance i SET asked_at = clock_timestamp(),
            waits_since = CASE WHEN was.at IS NOT NULL
                AND i.waits_since > coalesce(was.taken_at, '-infinity'::timestamptz)
                THEN i.waits_since ELSE asked.start_requested_at END
        FROM asked, was WHERE i.queue_id = asked.id
    )
    SELECT start_requested_at FROM asked"""
_STANDS: Final = "SELECT 1 FROM integration_queue WHERE id = %s AND start_requested_at = %s"
_NOT_SENT: Final = "UPDATE crontasks_croninstance SET asked_at = NULL WHERE queue_id = ANY(%s)"


def request(cursor: Cursor, queue_id: int, *, was_mine: bool = False) -> datetime | None:
    """The request to send because of this call; None if there is none.

    That is so when the queue may not run, all its partitions are owned, or its request was sent
    a moment ago (`MAY_ASK`). A run that has just ended asks with `was_mine`: its own locks may
    still be seen for a moment.
    """
    cursor.execute(_ASK, (queue_id, queue_id, was_mine))
    row = cursor.fetchone()
    return None if row is None else row[0]


def ask(queue_id: int, *, was_mine: bool = False) -> bool:
    """Ask for a run of the queue and send it to the workers; whether one was sent.

    None is sent where none is wanted or free; one that the broker does not take stands all the
    same. The consumers' ticks call it, and a run that ended and goes on. A person's decision leaves
    its request by integration.store.starts instead. Cheap, and harmless when repeated.
    """
    with django_connection().cursor() as cursor:
        requested_at = request(cursor, queue_id, was_mine=was_mine)
        return requested_at is not None and send(cursor, {queue_id: requested_at})


def ask_on_commit(queue_id: int) -> None:
    """Ask as a part of the transaction that is open, if one is; it is sent once that is committed.

    A worker that took it before would find no request, and end.
    """
    with django_connection().cursor() as cursor:
        requested_at = request(cursor, queue_id)
    if requested_at is None:
        return
    requests = {queue_id: requested_at}

    def send_it() -> None:
        with django_connection().cursor() as cursor:
            send(cursor, requests)

    transaction.on_commit(send_it, using=alias())


def stands(queue_id: int, requested_at: datetime) -> bool:
    """Return whether this request is still the queue's: no run has served it."""
    return bool(fetch_all(_STANDS, (queue_id, requested_at)))


def send(cursor: Cursor, requests: Mapping[int, datetime]) -> bool:
    """Send requested runs to the workers; False if the broker takes none.

    What it does not take stands as not sent, and the dispatcher sends it once the broker is back:
    the moment or the person that asked does not come again.
    """
    unsent = list(requests)
    try:
        while unsent:
            arguments = (unsent[0], requests[unsent[0]].isoformat())
            app.send_task(RUN_QUEUE, arguments)
            unsent.pop(0)
    except OperationalError as e:
        cursor.execute(_NOT_SENT, (unsent,))
        logger.warning("starts not sent, the broker does not answer", extra={"error": str(e)})
        return False
    return True
