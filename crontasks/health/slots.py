"""The slots of the workers: whose runs take them, whose calls hang, and which queues wait for one.

A run hangs once its call is over the queue's time for one call, or its lease was not renewed for
longer than it should (the call lets no other thread run, or the process is stopped).
"""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, Final

from django.conf import settings

from crontasks.hearts import SERVES_QUEUES
from crontasks.running.starts import HAS_WORK_TO_TAKE
from integration.store import locks
from integration.store.locks import LockClass
from integration.store.sessions import fetch_all
from integration.store.sharing import LOCKED
from integration.store.starts import IS_WANTED
from integration.store.watchdog import ENDS_AFTER_LEASES

# Queues that take turns come around within five seconds; so long waits no queue in health.
PATIENCE: Final = timedelta(seconds=30)
# A lease is renewed each third of its time.
SILENT_LEASES: Final = 0.5

# A run that hung is followed until its message is through: its process ended, the next run began.
_RUNS: Final = f"""
    WITH {LOCKED}, run AS (
        SELECT q.id AS queue_id, q.system_id, q.name AS queue, p.partition, p.next_offset,
            coalesce(CASE WHEN p.suspect_offset >= p.next_offset THEN p.suspect_offset END,
                     marked.at) AS alone,
            s.owner, s.taken_at, s.working_since, s.lease_until, locked.id IS NOT NULL AS is_held,
            s.overdue, s.lease_until < clock_timestamp()
                + make_interval(secs => %(lease)s * {SILENT_LEASES}) AS is_silent,
            p.suspect_hung
                AND (p.unclean_offset = p.next_offset OR marked.at IS NOT NULL) AS is_again,
            q.handler_timeout_seconds AS most_seconds
        FROM integration_partitionlease s
        JOIN integration_queuepartition p ON p.id = s.partition_id
        JOIN integration_queue q ON q.id = p.queue_id
        LEFT JOIN locked ON locked.id = p.id
        LEFT JOIN LATERAL (
            SELECT min(e."offset") AS at FROM integration_messageerror e
            WHERE p.marked_at IS NOT NULL AND e.queue_id = p.queue_id
              AND e.state = 'PROCESSING' AND e.epoch = p.epoch AND e.partition = p.partition
              AND q.direction = 'inbound'
        ) marked ON true
        WHERE s.released_at IS NULL AND NOT s.rescues
    )
    SELECT queue_id, system_id, queue, partition, next_offset, alone, owner, taken_at, most_seconds,
        working_since, lease_until, overdue, CASE
            WHEN is_held AND (overdue OR is_silent) THEN 'hangs'
            WHEN NOT is_held AND overdue THEN 'ended'
            WHEN is_held AND is_again THEN 'again'
            ELSE 'works' END AS stage
    FROM run WHERE is_held OR overdue
    ORDER BY queue, partition"""
# Slots that other Celery tasks take: cron tasks, bulk operations, and the relay where it shares.
_OTHERS: Final = f"""(
        SELECT count(*) FROM crontasks_cronrun r
        JOIN crontasks_croninstance i ON i.id = r.instance_id
        WHERE r.state = 'RUNNING' AND i.queue_id IS NULL
          AND {locks.is_held(LockClass.INSTANCE, "i.id")}
    ) + (
        SELECT count(*) FROM integration_operation
        WHERE state = 'RUNNING' AND owner <> '' AND lease_until > clock_timestamp()
    ) + (
        SELECT count(*) FROM (
            SELECT 1 FROM crontasks_heartbeat
            WHERE {SERVES_QUEUES} AND 'relay' = ANY(string_to_array(queues, ','))
              AND EXISTS ({locks.held(LockClass.RELAY)}) LIMIT 1) shared
    )"""
_WAITS: Final = f"""
    WITH {LOCKED}, total AS (
        SELECT (SELECT coalesce(sum(slots), 0) FROM crontasks_heartbeat
                WHERE {SERVES_QUEUES}) AS slots,
               {_OTHERS} AS others, clock_timestamp() AS now
    ), wait AS (
        SELECT q.id, q.system_id, q.name, CASE
            WHEN i.waits_since > greatest(owned.taken_at, q.changed_at)
            THEN least(i.waits_since, q.start_requested_at) ELSE q.start_requested_at END AS since
        FROM integration_queue q
        LEFT JOIN LATERAL (
            SELECT max(waits_since) AS waits_since FROM crontasks_croninstance
            WHERE queue_id = q.id) i ON true
        LEFT JOIN LATERAL (
            SELECT max(s.taken_at) AS taken_at FROM integration_partitionlease s
            JOIN integration_queuepartition p ON p.id = s.partition_id
            WHERE p.queue_id = q.id AND NOT s.rescues) owned ON true
        WHERE q.start_requested_at IS NOT NULL AND {IS_WANTED} AND {HAS_WORK_TO_TAKE}
    )
    SELECT total.slots, total.others, total.now, wait.id, wait.system_id, wait.name, wait.since
    FROM total LEFT JOIN wait ON true ORDER BY wait.since, wait.name"""


class Stage(Enum):
    """The stage of a run's call; all but WORKS belong to a call that hangs or did."""

    WORKS = "works"
    HANGS = "hangs"
    ENDED = "ended"  # its process is gone, and no other run has begun
    AGAIN = "again"  # the run after it is at the same messages


@dataclass(frozen=True, slots=True)
class Run:
    """A run of a queue at one partition. `alone` is the offset of a message that runs alone.

    `since` is when its call began; None = not known. `ends_by`: when its process has ended itself
    at the latest, if its call hangs. `is_silent`: it could not even say that it hangs.
    """

    queue_id: int
    system_id: int | None
    queue: str
    partition: int
    next_offset: int
    alone: int | None
    owner: str
    taken_at: datetime
    most_seconds: float
    _: KW_ONLY
    since: datetime | None
    stage: Stage
    is_silent: bool = False
    ends_by: datetime | None = None

    def has_lapsed(self, now: datetime) -> bool:
        """Return whether its lease is over: the next run may take the partition."""
        return self.is_silent and self.ends_by is not None and self.ends_by < now


@dataclass(frozen=True, slots=True)
class Wait:
    """A queue whose start was asked for and that no slot has taken."""

    queue_id: int
    system_id: int | None
    queue: str
    since: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Slots:
    """The slots for runs of queues, as the database knows them. `others` run other tasks."""

    total: int
    others: int
    now: datetime
    runs: tuple[Run, ...]
    waits: tuple[Wait, ...]

    @property
    def taking(self) -> dict[str, Run]:
        """Map owners to the run that takes a slot, of several partitions the one that hangs."""
        by_owner: dict[str, Run] = {}
        for run in self.runs:
            if run.stage is not Stage.ENDED and not _hangs(by_owner.get(run.owner)):
                by_owner[run.owner] = run
        return by_owner

    @property
    def hung(self) -> tuple[Run, ...]:
        """One for each slot whose call hangs right now."""
        return tuple(run for run in self.taking.values() if _hangs(run))

    @property
    def is_full(self) -> bool:
        return 0 < self.total <= len(self.taking) + self.others

    @property
    def lacking(self) -> tuple[Wait, ...]:
        """Queues that wait in vain, the longest first: behind calls that hang, or for too long."""
        if not self.is_full:
            return ()
        if self.hung:
            return self.waits
        return tuple(wait for wait in self.waits if self.now - wait.since > PATIENCE)


def _hangs(run: Run | None) -> bool:
    return run is not None and run.stage is Stage.HANGS


def look() -> Slots:
    """Ask the database, in two statements. Raises what Django raises when it does not answer."""
    lease = timedelta(seconds=settings.SLUICE_LEASE_SECONDS)
    runs = tuple(_run(row, lease) for row in fetch_all(_RUNS, {"lease": lease.total_seconds()}))
    rows = fetch_all(_WAITS)
    total, others, now, *_ = rows[0]
    waits = tuple(Wait(*row[3:]) for row in rows if row[3] is not None)
    return Slots(total=int(total), others=int(others), now=now, runs=runs, waits=waits)


def _run(row: Sequence[Any], lease: timedelta) -> Run:
    *facts, since, lease_until, is_overdue, stage_text = row
    stage, most_seconds = Stage(stage_text), facts[-1]
    is_silent = stage is Stage.HANGS and not is_overdue
    ends_by = None
    if is_silent:
        # It may have called only after its last renewal, so when it began is not known.
        since, ends_by = lease_until - lease, lease_until
    elif stage is Stage.HANGS and since is not None:
        ends_by = since + timedelta(seconds=most_seconds) + lease * ENDS_AFTER_LEASES
    elif stage is Stage.HANGS:
        ends_by = lease_until
    return Run(*facts, since=since, stage=stage, is_silent=is_silent, ends_by=ends_by)
