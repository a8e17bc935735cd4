"""Counts what a cleanup would remove and what is protected, by the very conditions of its run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Final

from django.db import OperationalError, transaction
from psycopg.errors import QueryCanceled

from crontasks.cleanup.rules import AT, Rule
from crontasks.cursor import Cursor
from crontasks.errors import SimulationTooLongError
from integration.store.sessions import alias, django_connection

# Counting must not be what slows the database down.
LONGEST_STATEMENT: Final = "SET LOCAL statement_timeout = '20s'"
COUNT_CAP: Final = 10_000


@dataclass(frozen=True, slots=True)
class OldRows:
    """Rows of one status and age that would go. The size is what lies on the disk, about."""

    status: str
    days: int
    rows: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Protected:
    """Rows that stay, and why; `is_capped`: there are more than were counted."""

    why: str
    rows: int
    is_capped: bool


@dataclass(frozen=True, slots=True)
class RuleForecast:
    """The rows that one rule would remove at a moment, those it spares, and what becomes due later.

    `later` are the rows that each of the moments behind it would find besides.
    """

    rule: Rule
    old: tuple[OldRows, ...]
    protected: tuple[Protected, ...]
    later: tuple[int, ...]

    @property
    def rows(self) -> int:
        return sum(old.rows for old in self.old)

    @property
    def size_bytes(self) -> int:
        return sum(old.size_bytes for old in self.old)

    @property
    def by_status(self) -> Mapping[str, int]:
        rows: dict[str, int] = {}
        for old in self.old:
            rows[old.status] = rows.get(old.status, 0) + old.rows
        return rows


def forecast(
    rules: Sequence[Rule], parameters: Mapping[str, object], moments: Sequence[datetime]
) -> list[RuleForecast]:
    """Forecast what a run at the first of these moments removes; remove nothing.

    The others are later runs. Raises SimulationTooLongError.
    """
    try:
        with transaction.atomic(using=alias()), django_connection().cursor() as cursor:
            cursor.execute(LONGEST_STATEMENT)
            return [_forecast(cursor, rule, parameters, moments) for rule in rules]
    except OperationalError as failure:
        if isinstance(failure.__cause__, QueryCanceled):
            raise SimulationTooLongError from failure
        raise


def _forecast(
    cursor: Cursor, rule: Rule, parameters: Mapping[str, object], moments: Sequence[datetime]
) -> RuleForecast:
    values = {**parameters, "at": moments[0], "last": moments[-1]}
    names = [f"moment_{place}" for place in range(1, len(moments))]
    values.update(zip(names, moments[1:], strict=True))
    cursor.execute(_counting(rule, names), values)
    rows = list(cursor.fetchall())
    old = tuple(OldRows(*row[:4]) for row in rows if row[2])
    sums = [sum(row[2] for row in rows)]
    sums += [sum(row[4 + place] for row in rows) for place in range(len(names))]
    later = tuple(after - before for before, after in pairwise(sums))
    return RuleForecast(rule, old, tuple(_protected(cursor, rule, values)), later)


def _counting(rule: Rule, names: Sequence[str]) -> str:
    judged = "".join(f", {rule.is_due(f'%({name})s::timestamptz')} AS {name}" for name in names)
    counted = "".join(f", count(*) FILTER (WHERE {name})" for name in names)
    return f"""
        SELECT status, days, count(*) FILTER (WHERE now),
               coalesce(sum(size) FILTER (WHERE now), 0)::bigint{counted}
        FROM (
            SELECT {rule.status} AS status, ({rule.size})::bigint AS size,
                   floor(extract(epoch FROM {AT} - {rule.since}) / 86400)::int AS days,
                   {rule.is_due()} AS now{judged}
            FROM {rule.source} WHERE {rule.condition("%(last)s::timestamptz")}
        ) over_rows GROUP BY status, days ORDER BY status, days"""


def _protected(cursor: Cursor, rule: Rule, values: Mapping[str, object]) -> list[Protected]:
    spared = [(rows.why, f"{rule.is_due()} AND ({rows.condition})") for rows in rule.spared]
    kept = [(rows.why, rows.condition.format(at=AT)) for rows in rule.kept]
    protected = []
    for why, condition in [*spared, *kept]:
        cursor.execute(
            f"SELECT count(*) FROM (SELECT 1 FROM {rule.source} WHERE {condition} "
            f"LIMIT {COUNT_CAP + 1}) counted",
            values,
        )
        rows = cursor.fetchone()[0]
        protected.append(Protected(why, min(rows, COUNT_CAP), rows > COUNT_CAP))
    return protected
