"""The answer of /readyz: whether the installation makes progress, in counts without names.

It is asked by monitoring, often and without a login: every look is cheap, and no answer names a
queue, a host or an address. What waits for a person's decision is named and is not ill health.
"""

import functools
from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from django.conf import settings
from django.db import Error, connections, transaction
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

from crontasks.health import broker, slots
from crontasks.health.checks import Finding, Health, HealthCheck, broken, check, good
from crontasks.health.live_processes import live_processes, open_runs
from integration.counting import so_many
from integration.selectors.deployment import foreign_environment
from integration.selectors.outbox.relaying import relays
from integration.selectors.queues.status import NO_BEAT, NO_DRIVER, LiveProcesses, Situation
from integration.store.queue_stops import IS_AT_STOP
from integration.store.sessions import alias, execute, fetch_all
from integration.store.stable_ends import IS_HELD_BACK
from integration.store.starts import IS_WANTED

LONGEST_STATEMENT: Final = "SET LOCAL statement_timeout = '3s'"
# The dispatcher starts a worker within seconds, the schedule every ten; an owner whose handlers
# are slow gets longer, as each call may take the queue's own handler timeout.
STALLED_SECONDS: Final = 180
STALLED_OWNED_SECONDS: Final = 900
# The relay sends within a second; what is due for so long does not go out by itself.
UNSENT_SECONDS: Final = 60
BRING_BACK: Final = (
    "Bring the brokers back, or correct the provider's access; they continue by themselves."
)
SEE_OVERVIEW: Final = "The overview names the calls that hang."
# Checks of the database, in this order, once it answers.
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

# What a person changed lately is progress, too: a queue set up or resumed needs a moment to begin.
_PLACES: Final = f"""
    WITH place AS (
        SELECT q.id AS queue, CASE
            WHEN p.id IS NULL THEN 'unopened'
            WHEN p.state IN ('BLOCKED', 'BRAKED', 'WAITING') THEN 'person'
            WHEN p.state = 'OUTAGE' AND p.state_code LIKE 'KAFKA%' THEN 'kafka'
            WHEN p.state = 'OUTAGE' AND p.state_code LIKE 'JMS%' THEN 'jms'
            WHEN p.state IN ('OUTAGE', 'BACKOFF') THEN CASE
                WHEN p.resume_at < clock_timestamp() - make_interval(secs => {STALLED_SECONDS})
                THEN 'stalled' ELSE 'pausing' END
            WHEN {IS_HELD_BACK} THEN 'held back'
            WHEN coalesce(p.high_watermark, 0) <= p.next_offset OR {IS_AT_STOP} THEN 'idle'
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


def look() -> list[HealthCheck]:
    """Every check, in the order in which to mend them. Raises nothing."""
    return [*_in_database(), check("broker", broker.look())]


def _in_database() -> list[HealthCheck]:
    done: list[HealthCheck] = []
    try:
        with transaction.atomic(using=alias()):
            execute(LONGEST_STATEMENT)
            done.append(good("database", "PostgreSQL answers."))
            done.append(check("migrations", migrations()))
            if done[-1].ok:
                ours = check("environment", environment())
                done.extend([ours, *_live_processes(), _slots(), _progress()])
    except Error:
        # Its text may name hosts and people, and whoever asks here need not be logged in.
        done[:1] = [_no_database(answered=bool(done))]
    names = {check.name for check in done}
    left = [name for name in LOOKED_AT if name not in names]
    return [*done, *(HealthCheck(name, Health.UNKNOWN, "Not looked at.") for name in left)]


def _no_database(*, answered: bool) -> HealthCheck:
    if answered:
        why = "PostgreSQL answers, but did not do what was asked within three seconds."
        return broken("database", why, "Check the database's log and its load.")
    return broken(
        "database",
        "PostgreSQL does not answer.",
        "Start it, or correct SLUICE_DATABASE_URL; `manage.py doctor` says more.",
    )


@functools.cache
def _leaves() -> frozenset[tuple[str, str]]:
    """The last migration of each app, as this process's code has them: read from disk once."""
    return frozenset(MigrationLoader(None).graph.leaf_nodes())


def migrations() -> Finding:
    applied = MigrationRecorder(connections[settings.SLUICE_DATABASE]).applied_migrations()
    missing = len(_leaves() - applied.keys())
    if missing:
        why = f"Migrations of {so_many(missing, 'app')} are not applied."
        return Situation(why, "Run `manage.py migrate`.")
    return "All are applied."


def environment() -> Finding:
    foreign = foreign_environment()
    if foreign is None:
        return "The database belongs to this environment."
    return Situation(
        "The database belongs to another environment, so nothing is started.",
        "If it is a copy that is to act, run `manage.py adopt_database`.",
        f"It belongs to {foreign}, this process to {settings.SLUICE_ENVIRONMENT}.",
    )


def _live_processes() -> Iterator[HealthCheck]:
    living = live_processes()
    yield _alive("worker", living.workers, living.no_worker)
    yield _alive("beat", living.beats, NO_BEAT)
    yield _relay(living)
    # Bulk runs alone need a driver: without one nothing is wrong until one of them waits.
    if living.drivers or open_runs().oldest_seconds > UNSENT_SECONDS:
        yield _alive("spark", living.drivers, NO_DRIVER)
    else:
        yield good("spark", "No bulk run waits.")


def _relay(living: LiveProcesses) -> HealthCheck:
    if not living.relays:
        return _alive("relay", 0, living.no_relay)
    late = sum(
        (row.oldest_due_seconds or 0) > UNSENT_SECONDS
        for row in relays()
        if not row.is_held and row.in_doubt_seconds is None
    )
    if late:
        why = f"Messages for {so_many(late, 'provider')} are due for over a minute, "
        step = "Check the log of the relay's worker; `manage.py check_flow` names the link."
        return broken("relay", f"{why}and no relay sends them.", step)
    return _alive("relay", living.relays, living.no_relay)


def _alive(name: str, count: int, lack: Situation) -> HealthCheck:
    if count:
        return good(name, f"{count} alive.")
    return broken(name, *lack)


def _slots() -> HealthCheck:
    """A wait of seconds is no ill health: a call that hangs gives its slot back by itself."""
    usage = slots.look()
    taken = len(usage.taking) + usage.others
    why = f"{taken:,} of {so_many(usage.total, 'slot')} taken"
    if usage.hung:
        why += f", {len(usage.hung):,} by calls that hang; their processes end themselves"
    long = timedelta(seconds=UNSENT_SECONDS)
    late = [wait for wait in usage.lacking if usage.now - wait.since > long]
    if late:
        why += f"; {so_many(len(late), 'queue has', 'queues have')} waited for over a minute"
        step = "Start workers with more slots (-c); the overview names what takes them."
        return broken("slots", f"{why}.", step)
    return good("slots", f"{why}.", SEE_OVERVIEW if usage.hung else "")


def _progress() -> HealthCheck:
    counts: dict[str, int] = dict(fetch_all(_PLACES))
    stalled = counts.get("stalled", 0)
    if stalled:
        why = f"{so_many(stalled, 'queue has', 'queues have')} waiting messages and no progress."
        step = "Open the overview; `manage.py check_flow QUEUE` names the broken link."
        return broken("progress", why, step)
    for verdict, who in (("kafka", "Kafka"), ("jms", "A JMS broker")):
        if away := counts.get(verdict, 0):
            why = f"{who} does not serve {so_many(away, 'queue')}."
            return broken("progress", why, BRING_BACK)
    held_back = counts.get("held back", 0)
    if held_back:
        why = f"Open transactions in Kafka hold back {so_many(held_back, 'queue')}."
        step = "Open the overview; `manage.py check_flow QUEUE` tells how to end it."
        return broken("progress", why, step)
    return good("progress", "Every queue that can move does.", _for_people(counts))


def _for_people(counts: dict[str, int]) -> str:
    """Tell what is not ill health, but somebody's work."""
    count = counts.get("person", 0) + counts.get("unopened", 0)
    if not count:
        return ""
    return f"{so_many(count, 'queue waits', 'queues wait')} for a person: see the overview."
