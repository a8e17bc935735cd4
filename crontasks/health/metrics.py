"""All figures for monitoring: those of the engine, and those of runs and heartbeats."""

from collections.abc import Iterator
from typing import Final

from django.db import transaction

from crontasks.health.live_processes import open_runs
from crontasks.hearts import ALIVE_SECONDS
from crontasks.outcome import RunState
from integration.policy.states import BulkState
from integration.selectors import metrics
from integration.selectors.metrics import Family
from integration.store.sessions import alias, execute, fetch_all

# Monitoring must never be what slows the database down.
LONGEST_STATEMENT: Final = "SET LOCAL statement_timeout = '5s'"
RUNS_SECONDS: Final = 3_600
# By the index of runs by instance and time: a history of any length costs nothing.
_RUNS: Final = f"""
    SELECT i.task, r.state, count(r.state)
    FROM crontasks_croninstance i
    LEFT JOIN LATERAL (SELECT r.state FROM crontasks_cronrun r WHERE r.instance_id = i.id
        AND r.started_at > statement_timestamp() - interval '{RUNS_SECONDS} s') r ON true
    GROUP BY i.task, r.state ORDER BY i.task"""
_HEARTS: Final = """
    SELECT kind, node, extract(epoch FROM clock_timestamp() - seen_at)::float, slots, queues,
           clock_skew_seconds
    FROM crontasks_heartbeat ORDER BY kind, node"""


def everything() -> list[Family]:
    """Every family, in twelve queries and one setting. Raises DatabaseError."""
    with transaction.atomic(using=alias()):
        execute(LONGEST_STATEMENT)
        return [*metrics.families(), _of_runs(), *_of_hearts(), *_of_bulk()]


def _of_runs() -> Family:
    family = Family(
        "runs",
        f"Runs that began within the last {RUNS_SECONDS:,} seconds, by how they stand",
        ("task", "state"),
    )
    counts = {(task, state): count for task, state, count in fetch_all(_RUNS)}
    for task in sorted({task for task, _ in counts}):
        for state in RunState:
            family.add(counts.get((task, state.value), 0), task, state.value)
    return family


def _of_bulk() -> Iterator[Family]:
    bulk = open_runs()
    runs = Family("bulk_runs", "Runs of bulk jobs that have not ended", ("state",))
    runs.add(bulk.waiting, BulkState.ASKED.value)
    runs.add(bulk.running, BulkState.RUNNING.value)
    oldest = Family("bulk_waiting_seconds", "For how long the oldest bulk run waits for a driver")
    oldest.add(bulk.oldest_seconds)
    yield from [runs, oldest]


def _of_hearts() -> Iterator[Family]:
    ages = Family(
        "heartbeat_age_seconds",
        f"Since the last sign of life; over {ALIVE_SECONDS} = taken for dead",
        ("kind", "node"),
    )
    slots = Family("worker_slots", "Celery tasks that living workers can run", ("queues",))
    skew = Family("clock_skew_seconds", "The host's clock against the database's", ("node",))
    alive: dict[str, int] = {}
    for kind, node, age, count, queues, ahead in fetch_all(_HEARTS):
        ages.add(age, kind, node)
        skew.add(ahead, node)
        if kind == "worker" and age < ALIVE_SECONDS:
            alive[queues] = alive.get(queues, 0) + count
    for queues, count in alive.items():
        slots.add(count, queues)
    yield from [ages, slots, skew]
