"""The parts of an archive and their ranges: a part is written, verified and dropped alone.

Of tracking a part is a partition whose days are all old; its ranges go by where rows lie on the
disk. Of other tables there is one part, and each range lies within one day.
"""

from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any, Final

import psycopg

from integration.track_parts import DEFAULT, IN_UTC, LIST, parts_of
from spark_jobs.archive.parameters import ArchiveParameters, Rule
from spark_jobs.parameters import RunPlan
from spark_jobs.tables.ranges import Bound, block_cuts

RANGE_ROWS: Final = 50_000
MOST_RANGES: Final = 200
_OLD: Final = f"SELECT EXISTS (SELECT 1 FROM {DEFAULT} WHERE at < %s::timestamptz)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """Rows of a part: from `low` up to, and without, `high`; None has no end there.

    Numbers are blocks of the table, texts are moments.
    """

    low: Bound
    high: Bound


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The rows that are archived at once: those of these ranges of a table."""

    number: int
    table: str
    ranges: tuple[Range, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(RunPlan):
    """The parts of a run, in the order they are archived."""

    parts: tuple[Part, ...]


def plan(
    session: psycopg.Connection[Any], parameters: ArchiveParameters, rows: int = RANGE_ROWS
) -> Plan:
    """Look for what is old enough; there may be nothing."""
    if parameters.rule is None:
        tables = [(table, _blocks(session, table)) for table in _old_tables(session, parameters)]
    else:
        tables = [(parameters.rule.table, _moments(session, parameters, parameters.rule, rows))]
    made = [(table, ranges) for table, ranges in tables if ranges]
    return Plan(
        parts=tuple(
            Part(number=number, table=table, ranges=tuple(ranges))
            for number, (table, ranges) in enumerate(made)
        )
    )


def _old_tables(session: psycopg.Connection[Any], parameters: ArchiveParameters) -> list[str]:
    before = datetime.fromisoformat(parameters.before)
    with session.transaction():
        session.execute(IN_UTC)
        parts = parts_of(session.execute(LIST).fetchall())
    old = sorted((part for part in parts if part.until <= before), key=lambda part: part.until)
    tables = [part.table for part in old]
    is_left = session.execute(_OLD, [parameters.before]).fetchone()
    return [*tables, DEFAULT] if is_left and is_left[0] else tables


def _blocks(session: psycopg.Connection[Any], table: str) -> list[Range]:
    return [Range(low=low, high=high) for _, low, high in block_cuts(session, table, MOST_RANGES)]


def _moments(
    session: psycopg.Connection[Any], parameters: ArchiveParameters, rule: Rule, rows: int
) -> list[Range]:
    """Each begins with the first row of a day, or with one so many rows behind it."""
    statement = f"""
        SELECT DISTINCT since FROM (
            SELECT since, row_number() OVER (
                PARTITION BY (since AT TIME ZONE 'UTC')::date ORDER BY since) AS number
            FROM (SELECT {rule.since} AS since FROM {rule.source} WHERE {rule.condition}
                  AND {rule.since} < %(before)s::timestamptz) old
        ) placed WHERE number %% %(rows)s = 1 ORDER BY since"""
    values = {"at": parameters.at, "before": parameters.before, "rows": max(rows, 2)}
    begins = [at.isoformat() for (at,) in session.execute(statement.encode(), values).fetchall()]
    # What is due only later, and older than all of these, lies in the first one.
    ends = [None, *begins[1:], parameters.before] if begins else []
    return [Range(low=low, high=high) for low, high in pairwise(ends)]
