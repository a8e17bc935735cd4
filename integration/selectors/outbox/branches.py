"""Two-phase commits in doubt, as people see them."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.conf import settings

from integration.models import Queue
from integration.policy.branches import branch_of
from integration.selectors.queues.status import Situation
from integration.selectors.scope import EVERYTHING, Scope
from integration.store import branches
from integration.store.sessions import fetch_all

# Between the two commits of a batch lie milliseconds; what is older has been left.
LEFT_AFTER_SECONDS: Final = 10.0
# A prepared transaction has no process: to those who wait for it, it is number 0.
_WAITING: Final = (
    "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' "
    "AND 0 = ANY(pg_blocking_pids(pid))"
)
# Its locks have no process either, and the number of the session that has prepared it.
_HELD: Final = """
SELECT x.gid, array_agg(DISTINCT c.relname::text ORDER BY c.relname::text)
FROM pg_prepared_xacts x
JOIN pg_locks own ON own.transactionid = x.transaction AND own.pid IS NULL
JOIN pg_locks l ON l.virtualtransaction = own.virtualtransaction AND l.pid IS NULL
JOIN pg_class c ON c.oid = l.relation AND c.relkind = 'r'
WHERE x.gid = ANY(%s) AND l.mode = 'RowExclusiveLock' GROUP BY x.gid"""


# Rows of partitions whose last writer stands prepared.
_HELD_PLACES: Final = """
SELECT q.name, p.partition, x.gid, x.prepared
FROM pg_prepared_xacts x JOIN integration_queuepartition p ON p.xmax = x.transaction
JOIN integration_queue q ON q.id = p.queue_id
WHERE x.database = current_database()
  AND x.prepared < clock_timestamp() - make_interval(secs => %s)
ORDER BY x.prepared, q.name, p.partition"""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldByOthers:
    """A partition whose row a prepared transaction holds that is none of this deployment."""

    queue: str
    partition: int
    name: str
    since: datetime

    @property
    def situation(self) -> Situation:
        return Situation(
            f"A transaction that this installation has not prepared, {self.name}, has stood "
            f"prepared in the database since {self.since:%d %B %Y %H:%M} UTC. It holds the "
            "partition's row, so no run can take it.",
            "Let whoever prepared it end it. In a copy of the database nobody will: then end it in "
            f"psql with ROLLBACK PREPARED '{self.name}'.",
        )


def held_by_others() -> list[HeldByOthers]:
    """Every such partition, the one that was held first before the others."""
    own = settings.SLUICE_DEPLOYMENT
    return [
        HeldByOthers(queue=queue, partition=partition, name=name, since=since)
        for queue, partition, name, since in fetch_all(_HELD_PLACES, [LEFT_AFTER_SECONDS])
        if branch_of(own, name) is None
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitInDoubt:
    """A prepared transaction of which nobody knows whether Kafka has committed its part.

    `waiting` counts the sessions that wait for any prepared transaction; `tables` are those in
    which it holds rows; `second` is the other database in which it stands prepared, if any.
    """

    name: str
    queue: str
    topic: str
    partition: int
    last_offset: int
    since: datetime
    tables: tuple[str, ...]
    waiting: int
    second: str

    @property
    def situation(self) -> Situation:
        return Situation(
            f"The batch up to offset {self.last_offset} is prepared in the database, and Kafka "
            "does not tell whether its part is committed. Until that is settled the partition "
            "stands still.",
            "Bring Kafka back if it is away; otherwise decide on the outbox page.",
        )


def commits_in_doubt(scope: Scope = EVERYTHING) -> list[CommitInDoubt]:
    """Every branch that was left, the oldest first; none for people who see some systems only."""
    left = [one for one in branches.left() if one.seconds > LEFT_AFTER_SECONDS]
    if not left or not scope.is_whole:
        return []
    [(waiting,)] = fetch_all(_WAITING)
    held = dict(fetch_all(_HELD, [[str(one.branch) for one in left]]))
    queues = Queue.objects.in_bulk({one.branch.queue for one in left})
    return [
        CommitInDoubt(
            name=str(one.branch),
            queue=queues[one.branch.queue].name,
            topic=queues[one.branch.queue].topic,
            partition=one.branch.partition,
            last_offset=one.branch.next_offset - 1,
            since=one.prepared_at,
            tables=tuple(held.get(str(one.branch), ())),
            waiting=waiting,
            second="" if one.branch.second is None else one.branch.second.alias,
        )
        for one in left
        if one.branch.queue in queues
    ]
