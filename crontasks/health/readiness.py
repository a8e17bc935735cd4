"""Whether the installation makes progress: what /readyz answers, in counts and without names.

It is asked by monitoring, often and without a login: every look is cheap, and no answer names a
queue, a host or an address. What waits for a person's decision is told and is not ill health.
"""

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final

from django.conf import settings
from django.db import Error, connections, transaction
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

from crontasks.cursor import django_cursor
from crontasks.health import broker, slots
from crontasks.health.bulk_runs import open_runs
from crontasks.health.live_processes import live_processes
from integration.selectors.deployment import foreign_environment
from integration.selectors.outbox.relaying import relays
from integration.selectors.queues.status import (
    NO_BEAT,
    NO_BROKER,
    NO_DRIVER,
    LiveProcesses,
    Situation,
)
from integration.store.sessions import alias
from integration.store.stable_ends import IS_HELD_BACK
from integration.store.starts import IS_WANTED

LONGEST_STATEMENT: Final = "SET LOCAL statement_timeout = '3s'"
# The dispatcher starts a worker within seconds, the schedule every ten; an owner whose handlers
# are slow gets longer, as each call may take the queue's own handler timeout.
STALLED_SECONDS: Final = 180
STALLED_OWNED_SECONDS: Final = 900
UNSENT_SECONDS: Final = 60
SEE_OVERVIEW: Final = "The overview names the calls that hang."
# What is asked of the database, in this order, once it answers.
LOOKED_AT: Final = (
    "migrations",
    "environment",
    "worker",
    "beat",
    "relay",
    "spark",
    "slots",
    "progress",
)

# What a person changed or decided lately is progress, too: a queue that was set up or resumed needs
# a moment to begin.
_PLACES: Final = f"""
    WITH place AS (
        SELECT q.id AS queue, CASE
            WHEN p.id IS NULL THEN 'unopened'
            WHEN p.state IN ('BLOCKED', 'BRAKED', 'WAITING') THEN 'person'
            WHEN p.state = 'OUTAGE' AND p.state_code LIKE 'KAFKA%' THEN 'kafka'
            WHEN p.state IN ('OUTAGE', 'BACKOFF') THEN CASE
                WHEN p.resume_at < clock_timestamp() - make_interval(secs => {STALLED_SECONDS})
                THEN 'stalled' ELSE 'pausing' END
            WHEN {IS_HELD_BACK} THEN 'held back'
            WHEN coalesce(p.high_watermark, 0) <= p.next_offset THEN 'idle'
            WHEN greatest(
                p.progressed_at, p.state_since, decided.at, q.changed_at,
                CASE WHEN p.oldest_waiting_at < clock_timestamp() THEN p.oldest_waiting_at END
            ) > clock_timestamp() - make_interval(secs =>
                CASE WHEN s.released_at IS NULL AND s.lease_until > clock_timestamp()
                THEN greatest({STALLED_OWNED_SECONDS}, 3 * q.handler_timeout_seconds)
                ELSE {STALLED_SECONDS} END)
            THEN 'moving'
            ELSE 'stalled' END AS verdict
        FROM integration_queue q
        LEFT JOIN integration_externalsystem x ON x.id = q.system_id
        LEFT JOIN integration_queuepartition p ON p.queue_id = q.id
        LEFT JOIN integration_partitionlease s ON s.partition_id = p.id
        LEFT JOIN LATERAL (
            SELECT max(c.at) AS at FROM integration_queuechange c WHERE c.queue_id = q.id
        ) decided ON true
        WHERE {IS_WANTED} AND (x.id IS NULL OR x.enabled)
    )
    SELECT verdict, count(DISTINCT queue) FROM place GROUP BY verdict"""


class Health(Enum):
    """How one look ended."""

    OK = "ok"
    FAILING = "failing"
    UNKNOWN = "unknown"  # could not be looked at, because something before it failed


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at; `next_step` is empty when there is nothing to do."""

    name: str
    health: Health
    why: str
    next_step: str = ""


def look() -> list[Check]:
    """Every check, in the order in which to mend them. Raises nothing."""
    return [*_in_database(), _broker()]


def is_ready(checks: list[Check]) -> bool:
    return all(check.health is Health.OK for check in checks)


def _in_database() -> list[Check]:
    done: list[Check] = []
    try:
        with transaction.atomic(using=alias()):
            with django_cursor() as cursor:
                cursor.execute(LONGEST_STATEMENT)
            done.append(Check("database", Health.OK, "PostgreSQL answers."))
            done.append(_migrations())
            if done[-1].health is Health.OK:
                done.extend([_environment(), *_live_processes(), _slots(), _progress()])
    except Error:
        # Its text may name hosts and people, and whoever asks here need not be logged in.
        done[:1] = [_no_database(answered=bool(done))]
    seen = {check.name for check in done}
    left = [name for name in LOOKED_AT if name not in seen]
    return [*done, *(Check(name, Health.UNKNOWN, "Not looked at.") for name in left)]


def _no_database(*, answered: bool) -> Check:
    if answered:
        why = "PostgreSQL answers, but did not do what was asked within three seconds."
        return Check("database", Health.FAILING, why, "Look at the database's log and its load.")
    return Check(
        "database",
        Health.FAILING,
        "PostgreSQL does not answer.",
        "Start it, or correct SLUICE_DATABASE_URL; `manage.py doctor` says more.",
    )


@functools.cache
def _leaves() -> frozenset[tuple[str, str]]:
    """The last migration of each app, as this process's code has them: read from disk once."""
    return frozenset(MigrationLoader(None).graph.leaf_nodes())


def _migrations() -> Check:
    applied = MigrationRecorder(connections[settings.SLUICE_DATABASE]).applied_migrations()
    missing = len(_leaves() - applied.keys())
    if missing:
        why = f"Migrations of {_counted(missing, 'app', 'apps')} are not applied."
        return Check("migrations", Health.FAILING, why, "Run `manage.py migrate`.")
    return Check("migrations", Health.OK, "All are applied.")


def _environment() -> Check:
    if foreign_environment() is None:
        return Check("environment", Health.OK, "The database belongs to this environment.")
    return Check(
        "environment",
        Health.FAILING,
        "The database belongs to another environment, so nothing is started.",
        "If it is a copy that is to act, run `manage.py adopt_database`.",
    )


def _live_processes() -> Iterator[Check]:
    found = live_processes()
    yield _alive("worker", found.workers, found.no_worker)
    yield _alive("beat", found.beats, NO_BEAT)
    yield _relay(found)
    yield _spark(found)


def _relay(found: LiveProcesses) -> Check:
    if not found.relays:
        return _alive("relay", 0, found.no_relay)
    late = sum(
        (row.oldest_due_seconds or 0) > UNSENT_SECONDS
        for row in relays()
        if not row.is_held and row.in_doubt_seconds is None
    )
    if late:
        why = f"Messages for {_counted(late, 'provider', 'providers')} are due for over a minute, "
        step = "Look at the log of the relay's worker; `manage.py check_flow` names the link."
        return Check("relay", Health.FAILING, f"{why}and no relay sends them.", step)
    return _alive("relay", found.relays, found.no_relay)


def _spark(found: LiveProcesses) -> Check:
    """Bulk runs alone need a driver: without one nothing is wrong until one of them waits."""
    if found.drivers:
        return _alive("spark", found.drivers, NO_DRIVER)
    if open_runs().oldest_seconds > UNSENT_SECONDS:
        return _alive("spark", 0, NO_DRIVER)
    return Check("spark", Health.OK, "No bulk run waits.")


def _alive(name: str, count: int, lack: Situation) -> Check:
    if count:
        return Check(name, Health.OK, f"{count} alive.")
    return Check(name, Health.FAILING, lack.why, lack.next_step)


def _slots() -> Check:
    """A wait of seconds is no ill health: a call that hangs gives its slot back by itself."""
    found = slots.look()
    taken = len(found.taking) + found.others
    why = f"{taken:,} of {_counted(found.total, 'slot', 'slots')} taken"
    if found.hung:
        why += f", {len(found.hung):,} by calls that hang; their processes end themselves"
    late = [one for one in found.lacking if (found.now - one.since).seconds > UNSENT_SECONDS]
    if late:
        why += f"; {_counted(len(late), 'queue has', 'queues have')} waited for over a minute"
        step = "Start workers with more slots (-c); the overview names what takes them."
        return Check("slots", Health.FAILING, f"{why}.", step)
    return Check("slots", Health.OK, f"{why}.", SEE_OVERVIEW if found.hung else "")


def _progress() -> Check:
    with django_cursor() as cursor:
        cursor.execute(_PLACES)
        found: dict[str, int] = dict(cursor.fetchall())
    stalled, kafka = found.get("stalled", 0), found.get("kafka", 0)
    if stalled:
        why = f"{_counted(stalled, 'queue has', 'queues have')} waiting messages and no progress."
        step = "Open the overview; `manage.py check_flow QUEUE` names the broken link."
        return Check("progress", Health.FAILING, why, step)
    if kafka:
        why = f"Kafka does not serve {_counted(kafka, 'queue', 'queues')}."
        step = "Bring Kafka back, or correct the provider's access; they go on by themselves."
        return Check("progress", Health.FAILING, why, step)
    held_back = found.get("held back", 0)
    if held_back:
        why = f"Open transactions in Kafka hold back {_counted(held_back, 'queue', 'queues')}."
        step = "Open the overview; `manage.py check_flow QUEUE` tells how to end it."
        return Check("progress", Health.FAILING, why, step)
    return Check("progress", Health.OK, "Every queue that can move does.", _for_people(found))


def _for_people(found: dict[str, int]) -> str:
    """What is not ill health, but somebody's work."""
    count = found.get("person", 0) + found.get("unopened", 0)
    if not count:
        return ""
    return f"{_counted(count, 'queue waits', 'queues wait')} for a person: see the overview."


def _broker() -> Check:
    if broker.silence() is None:
        return Check("broker", Health.OK, "The Celery broker answers.")
    # What its client says may name hosts.
    return Check("broker", Health.FAILING, NO_BROKER.why, NO_BROKER.next_step)


def _counted(count: int, one: str, many: str) -> str:
    return f"{count:,} {one if count == 1 else many}"
