"""Whether the installation can keep its promises: everything `manage.py doctor` looks at."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import psycopg
from django.conf import settings
from django.db import Error, ProgrammingError, connections
from django.db.migrations.executor import MigrationExecutor

from crontasks import copies
from crontasks.health import broker, live_processes
from crontasks.health.bulk_runs import open_runs
from crontasks.health.links import Link, broken, good, reason
from crontasks.health.live_processes import ALIVE
from integration.counting import so_many
from integration.kafka import admin
from integration.models import Provider
from integration.selectors.deployment import foreign_environment
from integration.store import locks
from integration.store.sessions import TERMINATE, backend_of, raw_connection

OLDEST_POSTGRES: Final = 150_000
MOST_SKEW_SECONDS: Final = 1.0


def diagnose() -> list[Link]:
    """Every finding, in order. Tries things out on probes; changes nothing that stays.

    While the database does not answer, only what can be asked without it is looked at.
    """
    try:
        first = database()
    except (psycopg.Error, Error) as e:
        text = f"The database does not answer ({reason(e)}), so little else can be looked at."
        step = "Start PostgreSQL, or correct SLUICE_DATABASE_URL."
        return [broken("database", text, step), celery_broker()]
    return [first, *map(_seen, LOOKS), *providers()]


def _seen(look: Callable[[], Link]) -> Link:
    try:
        return look()
    except ProgrammingError as e:
        step = "Run `python manage.py migrate`."
        return broken(look.__name__, f"The database says: {reason(e)}.", step)
    except (psycopg.Error, Error) as e:
        text = f"The database refused what was tried: {reason(e)}."
        return broken(look.__name__, text, "Look at the database's log.")


@contextmanager
def _probe() -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
    session = raw_connection("sluice doctor")
    try:
        yield session
    finally:
        session.close()


def database() -> Link:
    with _probe() as session:
        version = session.info.server_version
    if version < OLDEST_POSTGRES:
        text = f"PostgreSQL {version // 10_000} is too old."
        return broken("database", text, "Install PostgreSQL 15 or newer.")
    return good("database", f"PostgreSQL {version // 10_000} answers.")


def direct_session() -> Link:
    """Another session inside a transaction would get our server process from a pooler."""
    with _probe() as ours, _probe() as other:
        first = _pid(ours)
        ours.execute(locks.TRY, (locks.LockClass.PROBE, first))
        pids = set()
        for _ in range(3):
            with other.transaction():
                other.execute("SELECT 1")
                pids.add(_pid(ours))
        held = ours.execute(
            "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND classid = %s "
            "AND pid = %s AND granted",
            (locks.LockClass.PROBE, first),
        ).fetchone()
    if pids == {first} and held == (1,):
        return good("session", "Sessions are direct: locks stay with who took them.")
    return broken(
        "session",
        "Statements of one session reach several server processes: a transaction pooler is in "
        "between, and session locks protect nothing.",
        "Point SLUICE_DATABASE_URL at PostgreSQL itself, or at a pooler in session mode.",
    )


def _pid(session: psycopg.Connection[tuple[Any, ...]]) -> int:
    row = session.execute("SELECT pg_backend_pid()").fetchone()
    return -1 if row is None else int(row[0])


def termination() -> Link:
    """A stopped owner's sessions have to be ended before its partition can be taken."""
    with _probe() as ours, _probe() as victim:
        backend = backend_of(victim.cursor())
        try:
            ended = ours.execute(TERMINATE, (*backend, None, None)).fetchone()
        except psycopg.errors.InsufficientPrivilege:
            ended = None
    if ended == (True,):
        return good("terminate", "This role may end its own sessions.")
    return broken(
        "terminate",
        "This role may not end its own sessions, so a hanging worker's queue stays with it.",
        "Let all processes use one role, and leave it the right to pg_terminate_backend.",
    )


def encryption() -> Link:
    if copies.can_read_secrets():
        return good("encryption", "SLUICE_ENCRYPTION_KEYS open what was encrypted before.")
    return broken(
        "encryption",
        "SLUICE_ENCRYPTION_KEYS do not open what was encrypted when this database was set up.",
        "Put the old key back behind the new one (first = newest).",
    )


def environment() -> Link:
    foreign = foreign_environment()
    if foreign is None:
        return good("copy", f"The database belongs to {settings.SLUICE_ENVIRONMENT}.")
    return broken(
        "copy",
        f"The database belongs to {foreign}, this process to {settings.SLUICE_ENVIRONMENT}; "
        "nothing is started.",
        "If it is a copy that is to act, run `manage.py adopt_database`.",
    )


def migrations() -> Link:
    executor = MigrationExecutor(connections[settings.SLUICE_DATABASE])
    plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
    if plan:
        text = f"{len(plan)} migrations are not applied, the first is {plan[0][0]}."
        return broken("migrations", text, "Run `python manage.py migrate`.")
    return good("migrations", "All are applied.")


def celery_broker() -> Link:
    return broker.link()


def clock() -> Link:
    with _probe() as session:
        before = time.time()
        row = session.execute("SELECT extract(epoch FROM clock_timestamp())::float8").fetchone()
        after = time.time()
    skew = (before + after) / 2 - (float(row[0]) if row else 0.0)
    if abs(skew) > MOST_SKEW_SECONDS:
        text = f"This host's clock is {skew:+.1f} seconds from the database's."
        return broken("clock", text, "Synchronise the clocks of all hosts.")
    return good("clock", f"{abs(skew) * 1_000:.0f} ms from the database's.")


def beat() -> Link:
    alive = live_processes.alive("beat")
    if not any(heart.leads for heart in alive):
        text = f"No leading beat showed a heartbeat within {ALIVE.seconds} seconds."
        return broken("beat", text, "Start one: celery -A config beat")
    return good("beat", f"{len(alive)} alive, one leads.")


def worker() -> Link:
    hearts = live_processes.alive("worker")
    alive = live_processes.serving(hearts, live_processes.RUNS)
    if not alive:
        lack = live_processes.lack(hearts, live_processes.RUNS)
        return broken("worker", lack.why, lack.next_step)
    return good("worker", f"{len(alive)} alive for queues. {live_processes.slots_in_words(alive)}")


def relay() -> Link:
    hearts = live_processes.alive("worker")
    alive = live_processes.serving(hearts, live_processes.RELAY)
    if not alive:
        lack = live_processes.lack(hearts, live_processes.RELAY)
        return broken("relay", lack.why, lack.next_step)
    return good(
        "relay", f"{len(alive)} alive for the relay. {live_processes.slots_in_words(alive)}"
    )


def spark() -> Link:
    alive = live_processes.serving(live_processes.alive("worker"), live_processes.SPARK)
    if alive:
        return good("spark", f"{len(alive)} alive for bulk runs.")
    waiting = open_runs().waiting
    if not waiting:
        return good("spark", "No Spark driver is alive, and no bulk run waits for one.")
    text = f"{so_many(waiting, 'bulk run waits', 'bulk runs wait')} and no Spark driver is alive."
    return broken("spark", text, "Start one: python manage.py run_spark_driver")


def providers() -> Iterator[Link]:
    try:
        rows = list(Provider.objects.all())
    except Error:
        # Said already by the look at the database.
        return
    for row in rows:
        reach = admin.reachable(row)
        if reach.ok:
            yield good("provider", reach.text)
        else:
            yield broken("provider", reach.text, reach.next_step)


LOOKS: Final[tuple[Callable[[], Link], ...]] = (
    direct_session,
    termination,
    migrations,
    encryption,
    environment,
    celery_broker,
    clock,
    beat,
    worker,
    relay,
    spark,
)
