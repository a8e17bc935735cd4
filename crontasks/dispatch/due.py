"""Which queues are due for a start right now, and because of what. One query."""

from dataclasses import dataclass
from typing import Final

from crontasks.cursor import Cursor
from crontasks.running.starts import IS_FREE, LOCKED, MAY_ASK
from integration.store import strict_order
from integration.store.rows import IS_FIRST_OF_KEY
from integration.store.starts import IS_WANTED

# A retry whose reminder lies in the topic gets this long beyond its time before the row itself
# is taken: the ticket may still stand in the queue's backlog.
TICKET_GRACE_SECONDS: Final = 30
WAITING_EVERY_SECONDS: Final = 5

_DUE: Final = f"""
WITH {LOCKED},
wanted AS MATERIALIZED (
    SELECT q.id, q.start_requested_at FROM integration_queue q
    WHERE {IS_WANTED} AND {MAY_ASK}
      AND EXISTS (SELECT 1 FROM crontasks_croninstance i WHERE i.queue_id = q.id AND i.active)
),
free AS MATERIALIZED (
    SELECT p.*, CASE WHEN s.partition_id IS NOT NULL THEN s.released_at IS NULL END AS abandoned
    FROM integration_queuepartition p
    JOIN wanted q ON q.id = p.queue_id
    LEFT JOIN integration_partitionlease s ON s.partition_id = p.id
    WHERE {IS_FREE}
),
turn AS MATERIALIZED ({strict_order.TURNS}),
rows AS (
    SELECT DISTINCT e.id, e.queue_id, e.version
    FROM integration_messageerror e
    JOIN free f ON f.queue_id = e.queue_id AND (
        f.partition = e.partition OR NOT EXISTS (
            SELECT 1 FROM integration_queuepartition x
            WHERE x.queue_id = e.queue_id AND x.partition = e.partition))
    WHERE (e.state = 'READY' OR (e.state = 'RETRY' AND e.not_before <= clock_timestamp()
           - make_interval(secs => CASE e.carrier WHEN 'topic' THEN {TICKET_GRACE_SECONDS}
                                                  ELSE 0 END)))
      AND NOT (f.state IN ('BACKOFF', 'OUTAGE') AND f.resume_at > clock_timestamp())
      AND (NOT EXISTS (SELECT 1 FROM integration_queue k WHERE k.id = e.queue_id
             AND k.direction = 'outbound' AND k.ordering = 'key') OR {IS_FIRST_OF_KEY})
      AND NOT EXISTS (
          SELECT 1 FROM turn JOIN integration_queue q ON q.error_queue_id = turn.error_queue
          WHERE q.id = e.queue_id AND {strict_order.WAITS})
)
SELECT id, 'never started' FROM wanted q
    WHERE NOT EXISTS (SELECT 1 FROM integration_queuepartition p WHERE p.queue_id = q.id)
UNION ALL
SELECT queue_id, 'never taken ' || id FROM free WHERE abandoned IS NULL
UNION ALL
SELECT q.id, 'requested ' || q.start_requested_at
    FROM wanted q JOIN free f ON f.queue_id = q.id WHERE q.start_requested_at IS NOT NULL
UNION ALL
SELECT queue_id, 'resumes ' || id || ' ' || resume_at FROM free
    WHERE state IN ('BACKOFF', 'OUTAGE') AND resume_at <= clock_timestamp()
UNION ALL
SELECT queue_id, 'abandoned ' || id || ' ' || epoch FROM free WHERE abandoned
UNION ALL
SELECT queue_id, 'waits ' || id || ' '
       || floor(extract(epoch FROM clock_timestamp()) / {WAITING_EVERY_SECONDS})
    FROM free WHERE state = 'WAITING'
UNION ALL
SELECT f.queue_id, 'unblocked ' || f.id || ' ' || e.version
    FROM free f JOIN integration_messageerror e ON e.id = f.state_error
    WHERE f.state = 'BLOCKED' AND e.state IN ('DELETED', 'RESOLVED')
UNION ALL
SELECT queue_id, 'rows ' || count(*) || ' ' || sum(version) || ' ' || min(id::text)
    FROM rows GROUP BY queue_id"""


@dataclass(frozen=True, slots=True)
class Due:
    """A queue that should run, and the cause. Equal causes mean that nothing has changed."""

    queue_id: int
    cause: str


def find(cursor: Cursor) -> list[Due]:
    """Every queue that has something due in a partition nobody owns, once for each cause.

    Only enabled, unpaused queues that are read or sent here, with an active instance and without
    a request of the last ten seconds. Due are: queues that were never started; standing requests;
    BACKOFF and OUTAGE whose time has come; partitions whose recorded owner holds no lock or let
    its lease lapse; WAITING, looked at again every five seconds; a block whose failure was
    closed; READY rows and overdue RETRY rows, unless they wait for their turn on a strict error
    queue or behind a failure of their key.
    """
    cursor.execute(_DUE)
    return [Due(queue_id, cause) for queue_id, cause in cursor.fetchall()]
