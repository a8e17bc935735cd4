"""The time in which a run waits for its consumer group: whose turn it is, and for how long.

Nobody holds the partitions meanwhile, so that they look as if nobody came for them.
"""

import time
from collections.abc import Iterator
from typing import Final

from integration.delivery.ports import Stop
from integration.policy.shares import most_runs
from integration.store import sharing, starts
from integration.store.sessions import Session

# What a dead member is assigned still is waited for, with the brokers' defaults for 45 s.
MOST_SECONDS: Final = 60.0
# Where others wait for its slot, a run gives way sooner, but not before it could have joined an
# empty group: otherwise it would come no further in its next turn.
TURN_SECONDS: Final = 5.0
EVERY_SECONDS: Final = 0.2

# The other runs that count, and the partitions: those at work, and those that have waited for
# longer. One that is stopped does not count: its lease is over, or its wait.
_OTHERS: Final = f"""
WITH member AS ({sharing.MEMBERS}),
work AS (
    SELECT s.lock_pid AS pid, max(s.lease_until) AS until FROM integration_partitionlease s
    JOIN integration_queuepartition p ON p.id = s.partition_id
    WHERE p.queue_id = %(queue)s AND s.released_at IS NULL GROUP BY s.lock_pid
)
SELECT count(*) FILTER (WHERE CASE WHEN work.pid IS NOT NULL
    THEN work.until >= clock_timestamp()
    ELSE (a.backend_start, a.pid) < (me.backend_start, me.pid)
      AND a.backend_start > clock_timestamp() - make_interval(secs => {MOST_SECONDS}) END),
  (SELECT count(*) FROM integration_queuepartition WHERE queue_id = %(queue)s)
FROM member JOIN pg_stat_activity a ON a.pid = member.pid
JOIN pg_stat_activity me ON me.pid = pg_backend_pid() LEFT JOIN work ON work.pid = member.pid
WHERE member.queue_id = %(queue)s AND member.pid <> pg_backend_pid()"""


def is_one_too_many(session: Session, queue_id: int, workers: int | None) -> bool:
    """Return whether as many runs as may share the queue work on it or wait to join already."""
    row = session.execute(_OTHERS, {"queue": queue_id}).fetchone()
    return row is not None and row[0] >= most_runs(row[1], workers)


def attempts(stop: Stop) -> Iterator[None]:
    """Wait for the group from attempt to attempt, until that is enough."""
    began = time.monotonic()
    while True:
        yield
        seconds = time.monotonic() - began
        if seconds > MOST_SECONDS or (seconds > TURN_SECONDS and stop() is not None):
            return
        time.sleep(EVERY_SECONDS)


def leave_request(session: Session, queue_id: int) -> None:
    """Let the dispatcher start another run: this one gives up, and its request is served."""
    session.execute(starts.LEAVE, [queue_id])
