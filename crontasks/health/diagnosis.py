"""The diagnosis of an installation: everything that `manage.py doctor` looks at."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import psycopg
from django.db import Error, ProgrammingError

from crontasks import copies
from crontasks.health import broker, flow_set_up, live_processes, readiness
from crontasks.health.checks import Finding, HealthCheck, broken, check, reason
from integration.models import Provider, Queue
from integration.selectors.queues.status import Situation
from integration.store import locks
from integration.store.sessions import TERMINATE, backend_of, raw_connection

OLDEST_POSTGRES: Final = 150_000
MOST_SKEW_SECONDS: Final = 1.0


def diagnose() -> list[HealthCheck]:
    """Every check, in order. Tries things out on probes; changes nothing that stays.

    While the database does not answer, only what can be asked without it is looked at.
    """
    try:
        first = check("database", database())
    except (psycopg.Error, Error) as e:
        text = f"The database does not answer ({reason(e)}), so little else can be looked at."
        step = "Start PostgreSQL, or correct SLUICE_DATABASE_URL."
        return [broken("database", text, step), check("broker", broker.look())]
    return [first, *(_seen(name, look) for name, look in LOOKS), *providers(), *topics()]


def _seen(name: str, look: Callable[[], Finding]) -> HealthCheck:
    try:
        return check(name, look())
    except ProgrammingError as e:
        step = "Run `python manage.py migrate`."
        return broken(name, f"The database says: {reason(e)}.", step)
    except (psycopg.Error, Error) as e:
        text = f"The database refused what was tried: {reason(e)}."
        return broken(name, text, "Check the database's log.")


@contextmanager
def _probe() -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
    session = raw_connection("sluice doctor")
    try:
        yield session
    finally:
        session.close()


def database() -> Finding:
    with _probe() as session:
        version = session.info.server_version
    if version < OLDEST_POSTGRES:
        text = f"PostgreSQL {version // 10_000} is too old."
        return Situation(text, "Install PostgreSQL 15 or newer.")
    return f"PostgreSQL {version // 10_000} answers."


def direct_session() -> Finding:
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
        return "Sessions are direct: locks stay with who took them."
    return Situation(
        "Statements of one session reach several server processes: a transaction pooler is in "
        "between, and session locks protect nothing.",
        "Point SLUICE_DATABASE_URL at PostgreSQL itself, or at a pooler in session mode.",
    )


def _pid(session: psycopg.Connection[tuple[Any, ...]]) -> int:
    row = session.execute("SELECT pg_backend_pid()").fetchone()
    return -1 if row is None else int(row[0])


def termination() -> Finding:
    """A stopped owner's sessions have to be ended before its partition can be taken."""
    with _probe() as ours, _probe() as victim:
        backend = backend_of(victim.cursor())
        try:
            ended = ours.execute(TERMINATE, ([backend.pid], [backend.started])).fetchone()
        except psycopg.errors.InsufficientPrivilege:
            ended = None
    if ended == (True,):
        return "This role may end its own sessions."
    return Situation(
        "This role may not end its own sessions, so a hanging worker's queue stays with it.",
        "Let all processes use one role, and leave it the right to pg_terminate_backend.",
    )


def encryption() -> Finding:
    if copies.can_read_secrets():
        return "SLUICE_ENCRYPTION_KEYS open what was encrypted before."
    return Situation(
        "SLUICE_ENCRYPTION_KEYS do not open what was encrypted when this database was set up.",
        "Put the old key back behind the new one (first = newest).",
    )


def clock() -> Finding:
    with _probe() as session:
        before = time.time()
        row = session.execute("SELECT extract(epoch FROM clock_timestamp())::float8").fetchone()
        after = time.time()
    skew = (before + after) / 2 - (float(row[0]) if row else 0.0)
    if abs(skew) > MOST_SKEW_SECONDS:
        text = f"This host's clock is {skew:+.1f} seconds from the database's."
        return Situation(text, "Synchronise the clocks of all hosts.")
    return f"{abs(skew) * 1_000:.0f} ms from the database's."


def providers() -> list[HealthCheck]:
    try:
        return [check("provider", flow_set_up.reachable(one)) for one in Provider.objects.all()]
    except Error:
        return []  # Said already by the look at the database.


def topics() -> list[HealthCheck]:
    """One for each queue that cannot begin on its topic; one alone where there is none such."""
    try:
        queues = Queue.objects.filter(enabled=True).select_related("provider").order_by("name")
        unfit = flow_set_up.unfit_topics(queues).unfit
    except Error:
        return []
    if not unfit:
        return [check("topics", "Each queue has its topic, as far as clusters answer.")]
    step = "See “Flow” on the queue's page, or `python manage.py check_flow QUEUE`."
    return [broken("topics", sentence, step) for sentence in unfit]


LOOKS: Final[tuple[tuple[str, Callable[[], Finding]], ...]] = (
    ("session", direct_session),
    ("terminate", termination),
    ("migrations", readiness.migrations),
    ("encryption", encryption),
    ("environment", readiness.environment),
    ("broker", broker.look),
    ("clock", clock),
    ("beat", live_processes.beat),
    ("worker", live_processes.worker),
    ("relay", live_processes.relay),
    ("spark", live_processes.spark),
)
