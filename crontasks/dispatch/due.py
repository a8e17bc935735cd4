"""Queues that are due for a start right now and because of what, and how soon again."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from crontasks.cursor import Cursor
from crontasks.running.starts import MAY_ASK
from integration.store import strict_order
from integration.store.key_order import IS_FIRST_OF_KEY
from integration.store.sharing import COUNT, HELP_SECONDS, IS_FREE, IS_HELP_WANTED, LOCKED
from integration.store.starts import IS_WANTED

# A retry whose reminder lies in the topic gets this long beyond its time before the row itself
# is taken: the retry marker may still stand in the queue's backlog.
RETRY_MARKER_GRACE_SECONDS: Final = 30
WAITING_EVERY_SECONDS: Final = 5
FIRST_PAUSE_SECONDS: Final = 1.0
LONGEST_PAUSE_SECONDS: Final = 30.0
# A run that dies at every start brings a new cause each time: so many in so long, then a rest.
MOST_STARTS: Final = 5
WINDOW_SECONDS: Final = 10.0

# What no cause below does without. Of a thousand idle queues it leaves none, and all that follows
# costs nothing; of the others it may leave too many.
_WITH_A_CAUSE: Final = f"""
    SELECT q.id FROM integration_queue q WHERE q.start_requested_at IS NOT NULL
        OR q.help_wanted_at > (SELECT clock_timestamp() - make_interval(secs => {HELP_SECONDS}))
    UNION
    SELECT p.queue_id FROM integration_queuepartition p WHERE p.state <> 'RUNNING'
    UNION
    SELECT p.queue_id FROM integration_partitionlease s
        JOIN integration_queuepartition p ON p.id = s.partition_id WHERE s.released_at IS NULL
    UNION
    SELECT q.id FROM integration_queue q WHERE EXISTS (
        SELECT 1 FROM integration_messageerror e
        WHERE e.queue_id = q.id AND e.state IN ('READY', 'RETRY', 'PARKED'))"""
# What was never started or taken: to find what is missing, all rows have to be read.
_NEVER_TAKEN: Final = """
    UNION
    SELECT q.id FROM integration_queue q
        WHERE NOT EXISTS (SELECT 1 FROM integration_queuepartition p WHERE p.queue_id = q.id)
    UNION
    SELECT p.queue_id FROM integration_queuepartition p WHERE NOT EXISTS (
        SELECT 1 FROM integration_partitionlease s WHERE s.partition_id = p.id)"""
# The same of a queue `q` as Queue.needs_one_partition.
_NEEDS_ONE_PARTITION: Final = """(
        q.kind = 'sequential' AND (q.strict_order OR NOT q.is_error_queue)
        OR q.kind = 'continuous' AND q.ordering = 'key' AND NOT q.is_error_queue
           AND q.order_path <> '')"""
_DUE: Final = f"""
WITH {LOCKED},
caused AS MATERIALIZED ({_WITH_A_CAUSE}{{never_taken}}),
wanted AS MATERIALIZED (
    SELECT q.id, q.start_requested_at, q.help_wanted_at, q.workers FROM integration_queue q
    WHERE q.id IN (SELECT id FROM caused) AND {IS_WANTED} AND {MAY_ASK}
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
           - make_interval(secs => CASE e.carrier WHEN 'topic' THEN {RETRY_MARKER_GRACE_SECONDS}
                                                  ELSE 0 END)))
      AND NOT (f.state IN ('BACKOFF', 'OUTAGE') AND f.resume_at > clock_timestamp())
      AND ((e.parked_at IS NULL AND NOT EXISTS (
              SELECT 1 FROM integration_queue k WHERE k.id = e.queue_id
              AND k.kind = 'continuous' AND k.ordering = 'key')) OR {IS_FIRST_OF_KEY})
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
SELECT q.id, 'shares ' || {COUNT} FROM wanted q WHERE {IS_HELP_WANTED}
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
    WHERE f.state = 'BLOCKED'
      AND (e.state IN ('DELETED', 'RESOLVED') OR e.parked_at IS NOT NULL)
UNION ALL
SELECT f.queue_id, 'parked ' || f.id FROM free f JOIN integration_queue q ON q.id = f.queue_id
    WHERE q.kind = 'continuous' AND q.ordering <> 'key' AND EXISTS (
        SELECT 1 FROM integration_messageerror e WHERE e.queue_id = q.id AND e.state = 'PARKED')
UNION ALL
SELECT f.queue_id, 'unordered ' || f.id FROM free f JOIN integration_queue q ON q.id = f.queue_id
    WHERE f.state = 'BLOCKED' AND (f.state_code = 'KEYS_REMAPPED' AND q.ordering <> 'key'
        OR f.state_code = 'MORE_PARTITIONS' AND NOT {_NEEDS_ONE_PARTITION})
UNION ALL
SELECT queue_id, 'rows ' || count(*) || ' ' || sum(version) || ' ' || min(id::text)
    FROM rows GROUP BY queue_id
UNION ALL
SELECT NULL, '' WHERE NOT EXISTS (SELECT FROM caused)"""
_DUE_BUT_NEW: Final = _DUE.format(never_taken="")
_DUE_ALL: Final = _DUE.format(never_taken=_NEVER_TAKEN)


@dataclass(frozen=True, slots=True)
class Due:
    """A queue that should run, and the cause. Equal causes mean that nothing has changed."""

    queue_id: int
    cause: str


class Found(NamedTuple):
    """What is due. `is_quiet` tells that no queue is at work, waits, or has what may become due."""

    due: list[Due]
    is_quiet: bool


def find(cursor: Cursor, *, is_thorough: bool = True) -> Found:
    """Read in one query the queues with something due in an unowned partition, once for each cause.

    Only enabled, unpaused queues that are read or sent here, with an active instance and without
    a request of the last ten seconds. Due are: queues that were never started; standing requests;
    queues whose busy runs want another one; BACKOFF and OUTAGE whose time has come; partitions
    whose recorded owner holds no lock or let its lease lapse; WAITING, looked at again every five
    seconds; a block whose failure was closed or parked; what is parked, and what keys that moved
    block, where no key keeps its order any more; a block by more partitions than one where one is
    needed no more; READY rows and overdue RETRY rows, unless they wait for their turn on a strict
    error queue or behind a failure of their key. Unless it `is_thorough`, what was never started
    is left out, and partitions that were never taken where nothing else of their queue is due.
    """
    cursor.execute(_DUE_ALL if is_thorough else _DUE_BUT_NEW)
    rows = cursor.fetchall()
    due = [Due(queue_id, cause) for queue_id, cause in rows if queue_id is not None]
    return Found(due, is_quiet=len(due) < len(rows))


class Patience:
    """Remembers causes: a new one is served at once, at growing intervals one that a start left."""

    def __init__(self) -> None:
        self._served: dict[Due, tuple[float, float]] = {}
        self._starts: dict[int, deque[float]] = {}

    def select(self, due: Iterable[Due], now_seconds: float) -> list[int]:
        """Queue ids to start now, each once. `now_seconds` is any clock that only grows."""
        unspent = [queue for queue in due if not self._is_spent(queue.queue_id, now_seconds)]
        ripe = [queue for queue in unspent if self._is_ripe(queue, now_seconds)]
        for queue in ripe:
            self._serve(queue, now_seconds)
        self._forget(set(unspent), now_seconds)
        started = sorted({queue.queue_id for queue in ripe})
        for queue_id in started:
            self._starts.setdefault(queue_id, deque(maxlen=MOST_STARTS)).append(now_seconds)
        return started

    def _is_spent(self, queue_id: int, now_seconds: float) -> bool:
        starts = self._starts.get(queue_id)
        if starts is None or len(starts) < MOST_STARTS:
            return False
        return now_seconds - starts[0] < WINDOW_SECONDS

    def _is_ripe(self, queue: Due, now_seconds: float) -> bool:
        served = self._served.get(queue)
        return served is None or now_seconds >= served[0]

    def _serve(self, queue: Due, now_seconds: float) -> None:
        pause = FIRST_PAUSE_SECONDS
        if queue in self._served:
            pause = min(self._served[queue][1] * 2, LONGEST_PAUSE_SECONDS)
        self._served[queue] = (now_seconds + pause, pause)

    def _forget(self, present: set[Due], now_seconds: float) -> None:
        # A cause is absent while its start stands or runs; one that stays away is over.
        self._served = {
            queue: (until, pause)
            for queue, (until, pause) in self._served.items()
            if queue in present or now_seconds < until + LONGEST_PAUSE_SECONDS
        }
        self._starts = {
            queue_id: starts
            for queue_id, starts in self._starts.items()
            if now_seconds - starts[-1] < WINDOW_SECONDS
        }
