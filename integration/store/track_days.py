"""The days of tracking: a partition for each day, made ahead and dropped as a whole.

A row whose day has no partition goes to the default one: nothing ever fails for want of a day.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

from django.db import IntegrityError, OperationalError, connections, transaction
from psycopg.errors import CheckViolation, LockNotAvailable

from integration.store.sessions import alias
from integration.track_parts import (
    BRIEF,
    DEFAULT,
    IN_UTC,
    LIST,
    ONE_AT_A_TIME,
    TABLE,
    Part,
    parts_of,
)

__all__ = [
    "DAYS_AHEAD",
    "DEFAULT",
    "drop_before",
    "first_day",
    "make_ahead",
    "named",
    "parts",
    "summarize",
]

DAYS_AHEAD: Final = 7
# Days that a run of ours took off and could not drop any more.
_LEFT: Final = f"""
SELECT c.relname FROM pg_class c WHERE c.relkind = 'r' AND NOT c.relispartition
  AND c.relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = '{TABLE}'::regclass)
  AND c.relname ~ '^{TABLE}_(d[0-9]{{8}}|before)$'
"""
_SUMMARIZE: Final = (
    "SELECT coalesce(sum(brin_summarize_new_values(i.indexrelid)), 0) FROM pg_index i "
    "JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am a ON a.oid = c.relam "
    "WHERE i.indrelid = to_regclass('{}') AND a.amname = 'brin'"
)


def named(day: date) -> str:
    return f"{TABLE}_d{day:%Y%m%d}"


def parts() -> list[Part]:
    """Every partition but the default one, by name."""
    return parts_of(_rows(IN_UTC, LIST))


def first_day() -> datetime | None:
    """Return when the oldest day begins that is still there; None where none was dropped yet."""
    known = parts()
    begins = [part.begin for part in known if part.begin is not None]
    return min(begins, default=None) if len(begins) == len(known) else None


def make_ahead(days: int = DAYS_AHEAD) -> int:
    """Make the missing partitions of today and the days to come; return how many were made.

    A day is left out, and found in the default partition, when its lock is not to be had at
    once or when rows of it lie there already.
    """
    [(today,)] = _rows("SELECT (clock_timestamp() AT TIME ZONE 'UTC')::date")
    return sum(_made(today + timedelta(days=number)) for number in range(days + 1))


def drop_before(moment: datetime) -> Counter[str]:
    """Drop each partition whose last day ended by then; what its rows had ended in, counted.

    Each is taken off first, under a brief lock, and dropped when nobody else can meet it. One
    that is in use is left to the next time.
    """
    dropped: Counter[str] = Counter()
    for part in parts():
        if part.until <= moment:
            dropped += _dropped(part.table)
    for (name,) in _rows(_LEFT):
        _rows(f"DROP TABLE IF EXISTS {name}")
    return dropped


def summarize() -> int:
    """Tell the search index of the rows of these days; returns how many ranges it learnt.

    Autovacuum does it too, in its own time; rows it has not seen are found by reading them.
    """
    [(since,)] = _rows("SELECT clock_timestamp() - interval '1 day'")
    recent = [part.table for part in parts() if part.until > since]
    return sum(map(_summarized, recent))


def _made(day: date) -> bool:
    table, begin = named(day), datetime(day.year, day.month, day.day, tzinfo=UTC)
    end = begin + timedelta(days=1)
    try:
        with _cursor() as cursor:
            cursor.execute(BRIEF)
            cursor.execute(ONE_AT_A_TIME)
            cursor.execute(IN_UTC)
            cursor.execute(LIST)
            there = parts_of(cursor.fetchall())
            if any(day.until > begin and (day.begin is None or day.begin < end) for day in there):
                return False
            cursor.execute(
                f"CREATE TABLE IF NOT EXISTS {table} "
                f"(LIKE {TABLE} INCLUDING DEFAULTS INCLUDING STORAGE)"
            )
            # The bounds are dates of the database's own; they cannot be parameters.
            cursor.execute(
                f"ALTER TABLE {TABLE} ATTACH PARTITION {table} "
                f"FOR VALUES FROM ('{begin.isoformat()}') TO ('{end.isoformat()}')"
            )
    except (OperationalError, IntegrityError) as failure:
        if isinstance(failure.__cause__, LockNotAvailable | CheckViolation):
            return False
        raise
    return True


def _dropped(table: str) -> Counter[str]:
    counted: Counter[str] = Counter(
        dict(_rows(f"SELECT ended, count(*) FROM {table} GROUP BY ended"))
    )
    try:
        _rows(BRIEF, f"ALTER TABLE {TABLE} DETACH PARTITION {table}")
    except OperationalError as failure:
        if isinstance(failure.__cause__, LockNotAvailable):
            return Counter()
        raise
    _rows(f"DROP TABLE {table}")
    return counted


def _summarized(table: str) -> int:
    try:
        return int(_rows(BRIEF, _SUMMARIZE.format(table))[0][0])
    except OperationalError as failure:
        # A vacuum is at work on it, and learns the same.
        if isinstance(failure.__cause__, LockNotAvailable):
            return 0
        raise


def _rows(*statements: str) -> list[tuple[Any, ...]]:
    """Return what the last of these says, in a transaction of their own."""
    with _cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        return list(cursor.fetchall()) if cursor.description else []


@contextmanager
def _cursor() -> Iterator[Any]:
    with transaction.atomic(using=alias()), connections[alias()].cursor() as cursor:
        yield cursor
