"""Sends stored runs to the Spark driver, by Celery tasks on a queue of its own.

A run is stored as sent, and sent as soon as its row is committed. Whatever becomes of that Celery
task, the row stands: while a driver has nothing to do, the dispatcher sends what waits, and a run
whose driver died waits again. Only the compare-and-set of the driver that takes it decides whose it
is, so that a task too many does nothing.
"""

import json
import logging
from collections.abc import Sequence
from typing import Final
from uuid import UUID

from kombu.exceptions import OperationalError

from crontasks.celery_app import app
from crontasks.cursor import Cursor
from crontasks.expiry import expires_in
from crontasks.health.live_processes import SPARK
from crontasks.hearts import ALIVE_SECONDS
from crontasks.task_names import DRIVE_RUN
from integration.store.sessions import django_connection
from spark_jobs.errors import JobError

# A run that so many drivers died under is given to no other one.
MOST_DEATHS: Final = 3
# As with queues (crontasks.running.starts): a lost Celery task costs ten seconds, nothing else.
REISSUE_SECONDS: Final = 10
EXPIRES_SECONDS: Final = 30
# Who asks waits for it: a broker that does not answer at once is left to the dispatcher.
_AT_ONCE: Final = {"max_retries": 0, "socket_connect_timeout": 1.0, "socket_timeout": 1.0}
logger = logging.getLogger(__name__)

# What was applied has only its end to be written: no driver dies under that. As an array the runs
# to send are chosen once; a join may choose again for each, and pass over those it has sent.
_LOOK: Final = f"""
    WITH lost AS (
        SELECT id, deaths + 1 >= {MOST_DEATHS} AND NOT applied AS is_over
        FROM integration_bulkrun
        WHERE state = 'RUNNING' AND lease_until < clock_timestamp()
        FOR UPDATE SKIP LOCKED
    ), freed AS (
        UPDATE integration_bulkrun r SET
            state = CASE WHEN lost.is_over THEN 'FAILED' ELSE 'ASKED' END,
            problem = CASE WHEN lost.is_over THEN %s::jsonb END,
            ended_at = CASE WHEN lost.is_over THEN clock_timestamp() END,
            deaths = deaths + 1, epoch = epoch + 1, owner = '', lease_until = NULL, sent_at = NULL
        FROM lost WHERE r.id = lost.id
    ), idle AS (
        SELECT count(*) AS drivers FROM crontasks_heartbeat h
        WHERE h.kind = 'worker' AND h.slots > 0 AND '{SPARK}' = ANY(string_to_array(h.queues, ','))
          AND h.seen_at > clock_timestamp() - make_interval(secs => {ALIVE_SECONDS})
          AND NOT EXISTS (
              SELECT 1 FROM integration_bulkrun r WHERE r.state = 'RUNNING' AND r.owner = h.node)
    )
    UPDATE integration_bulkrun SET sent_at = clock_timestamp()
    WHERE id = ANY(ARRAY(
        SELECT id FROM integration_bulkrun
        WHERE state = 'ASKED' AND (lease_until IS NULL OR lease_until < clock_timestamp())
          AND (sent_at IS NULL
               OR sent_at < clock_timestamp() - make_interval(secs => {REISSUE_SECONDS}))
        ORDER BY asked_at FOR UPDATE SKIP LOCKED LIMIT (SELECT drivers FROM idle)
    ))
    RETURNING id"""
_TAKE_BACK: Final = "UPDATE integration_bulkrun SET sent_at = NULL WHERE id = ANY(%s)"


def look(cursor: Cursor) -> list[UUID]:
    """The dispatcher's step: take from dead drivers, send to idle ones. Returns what was sent.

    One statement that waits for nobody's locks. Raises psycopg.Error.
    """
    cursor.execute(_LOOK, (json.dumps(as_problem(died(MOST_DEATHS))),))
    return _sent(cursor, [run for (run,) in cursor.fetchall()])


def died(times: int) -> JobError:
    """A run that ends its drivers is given to no other one."""
    return JobError(
        "DRIVER_DIED",
        f"The process that drove it died {times} times.",
        "Look into the Spark driver's log, for memory above all; then let it go on.",
    )


def as_problem(error: JobError) -> tuple[str, str, str]:
    """The reason why a run failed, as its row holds it."""
    return error.code, error.text, error.next_step


def send(run: UUID) -> None:
    """Send a run that was committed as sent; the broker that does not answer makes it unsent."""
    with django_connection().cursor() as cursor:
        _sent(cursor, [run])


def _sent(cursor: Cursor, runs: Sequence[UUID]) -> list[UUID]:
    """Those that the broker took; the others are noted as not sent."""
    unsent, limit = list(runs), expires_in(EXPIRES_SECONDS) if runs else {}
    try:
        with app.connection_for_write(transport_options=_AT_ONCE) as broker:
            while unsent:
                asked = (str(unsent[0]),)
                app.send_task(DRIVE_RUN, asked, headers=limit, connection=broker)
                unsent.pop(0)
    except OperationalError as e:
        cursor.execute(_TAKE_BACK, (unsent,))
        logger.warning("bulk runs not sent, no answer from the broker", extra={"error": str(e)})
    return [run for run in runs if run not in unsent]
