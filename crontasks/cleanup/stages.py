"""The rules for bulk runs: what they have staged in tables of their own, and their rows."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Final

from django.db import OperationalError, transaction
from psycopg import sql
from psycopg.errors import LockNotAvailable

from crontasks.cleanup.rules import Rule, Spared, older_than
from crontasks.cursor import Cursor
from integration.policy.states import OPEN_SQL
from integration.store.sessions import alias, django_connection, fetch_all
from spark_jobs.archive import unfinished

# Of a table's name so much is the run's: "bulk_" and 32 digits.
RUN_CHARACTERS: Final = 37
ENDED: Final = "('DONE', 'FAILED', 'CANCELLED')"
# Each table that belongs to a run, by its name, with that run if it is still known.
TABLES: Final = r"""(
    SELECT c.oid AS id, c.relname::text AS name, r.id AS run, coalesce(r.state, '') AS state,
      coalesce(r.ended_at, r.asked_at, now()) AS since,
      coalesce(r.facts ? 'sending_begun', false) AS sending_begun
    FROM pg_class c
    JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = current_schema()
    LEFT JOIN integration_bulkrun r
      ON replace(r.id::text, '-', '') = substring(c.relname::text FROM 6 FOR 32)
    WHERE c.relkind = 'r' AND c.relname::text ~ '^bulk_[0-9a-f]{32}_') t"""
# Whatever takes the run again waits for this, and finds nothing staged afterwards.
LOCKED: Final = (
    f"SELECT 1 FROM integration_bulkrun WHERE id = %s AND state IN {ENDED} FOR UPDATE SKIP LOCKED"
)
PATIENCE: Final = "SET LOCAL lock_timeout = '1s'"
# A run without a row is nobody's: its tables go at once.
OVER: Final = (
    f"t.run IS NULL OR (t.state IN {ENDED} AND NOT t.sending_begun"
    f" AND {older_than('t.since', 'stages_days')})"
)
OLD: Final = f"t.state IN {ENDED} AND {older_than('coalesce(t.ended_at, t.asked_at)', 'bulk_days')}"
OPEN_REJECTS: Final = f"""EXISTS (
        SELECT 1 FROM integration_queue q JOIN integration_messageerror e ON e.queue_id = q.id
        WHERE e.topic_uuid = t.id::text AND e.state IN {OPEN_SQL})"""

STAGES: Final = Rule(
    name="stages",
    title="Tables of bulk runs",
    what="What runs that have ended had staged, and would go on with if they were let.",
    source=TABLES,
    due=OVER,
    since="t.since",
    status="t.state",
    size="pg_total_relation_size(t.id)",
    order="t.name",
    days="stages_days",
    kept=(
        Spared(
            "Of a run that waits or is under way: never removed",
            f"t.run IS NOT NULL AND t.state NOT IN {ENDED}",
        ),
        Spared(
            "They know what a run has sent: kept for as long as the run",
            f"t.state IN {ENDED} AND t.sending_begun",
        ),
        Spared(
            "Of a run that has just ended",
            f"t.state IN {ENDED} AND NOT t.sending_begun AND NOT ({OVER})",
        ),
    ),
)
BULK_RUNS: Final = Rule(
    name="bulk_runs",
    title="Bulk runs",
    what="Bulk runs of Spark that have ended, once all their rejects are closed.",
    source="integration_bulkrun t",
    due=OLD,
    since="coalesce(t.ended_at, t.asked_at)",
    status="t.state",
    order="t.asked_at",
    days="bulk_days",
    spared=(
        Spared("Some of its rejects are open", OPEN_REJECTS),
        # It may have written what is still here: only its own run drops that.
        Spared("An archive that has not come to its end: let it go on", unfinished.SQL),
    ),
    kept=(
        Spared("Waits, or is under way", f"t.state NOT IN {ENDED}"),
        Spared("Has ended within the days", f"t.state IN {ENDED} AND NOT ({OLD})"),
    ),
)


def remove(
    rule: Rule, parameters: Mapping[str, object], should_stop: Callable[[], bool]
) -> Counter[str]:
    """Drop the tables that the rule names, all of one run in one commit; counts them by state.

    Tables that somebody uses at this moment are left to the next run.
    """
    removed: Counter[str] = Counter()
    rows = fetch_all(
        f"SELECT t.name, t.run::text, t.state FROM {rule.source} "
        f"WHERE {rule.condition()} ORDER BY t.name",
        parameters,
    )
    for _, tables in groupby(rows, key=lambda row: str(row[0])[:RUN_CHARACTERS]):
        names, runs, states = zip(*tables, strict=True)
        if should_stop():
            break
        if _drop(runs[0], names):
            removed[states[0]] += len(names)
    return removed


def _drop(run: str | None, names: Sequence[str]) -> bool:
    try:
        with transaction.atomic(using=alias()), django_connection().cursor() as cursor:
            if run is not None and not _is_still_over(cursor, run):
                return False
            cursor.execute(PATIENCE)
            listed = sql.SQL(", ").join(map(sql.Identifier, names))
            cursor.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(listed).as_string(None))
    except OperationalError as failure:
        if isinstance(failure.__cause__, LockNotAvailable):
            return False
        raise
    return True


def _is_still_over(cursor: Cursor, run: str) -> bool:
    cursor.execute(LOCKED, [run])
    return cursor.fetchone() is not None
