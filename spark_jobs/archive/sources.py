"""The source of a part: all columns of its table, and of the tables whose rows go along."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import psycopg

from spark_jobs.archive.parameters import ArchiveParameters, Rule
from spark_jobs.archive.planning import Part, Range
from spark_jobs.tables.columns import Column, ColumnKind, quoted, select
from spark_jobs.tables.ranges import within

DAY: Final = "day"
KEY: Final = "id"
_COLUMNS: Final = """
SELECT a.attname, a.atttypid::regtype::text FROM pg_attribute a
WHERE a.attrelid = to_regclass(%s) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"""
_KINDS: Final = {
    "bigint": ColumnKind.WHOLE,
    "integer": ColumnKind.WHOLE,
    "smallint": ColumnKind.WHOLE,
    "boolean": ColumnKind.FLAG,
    "timestamp with time zone": ColumnKind.MOMENT,
    "bytea": ColumnKind.BYTES,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The rows of a part, as SQL over `source` given `values`; `since` tells their day."""

    columns: tuple[Column, ...]
    source: str
    condition: str
    since: str
    values: Mapping[str, Any]

    @property
    def dated(self) -> tuple[Column, ...]:
        """The columns, and behind them the day as the folders' names tell it."""
        day = f"to_char({self.since} AT TIME ZONE 'UTC', 'YYYY-MM-DD')"
        return (*self.columns, Column(DAY, ColumnKind.TEXT, day))

    def statement(self, part: Range) -> tuple[str, dict[str, Any]]:
        """SQL for the rows of a range, with their day, and what it is given."""
        condition, values = within(part.low, part.high, self.since, "timestamptz")
        return (
            select(self.dated, self.source, f"{self.condition} AND {condition}"),
            {**self.values, **values},
        )


def rule_of(parameters: ArchiveParameters, table: str) -> Rule:
    """Return the rule for a table's rows; those of tracking that lie in no day go one by one."""
    return parameters.rule or Rule(
        table=table,
        source=f"{table} t",
        condition="true",
        since="t.at",
        removals=(f"DELETE FROM {table} WHERE id = ANY(%(keys)s)",),
    )


def source_of(
    session: psycopg.Connection[Any], parameters: ArchiveParameters, part: Part
) -> Source:
    """Return what is read of a part; its columns are those that the table has now."""
    rule = rule_of(parameters, part.table)
    return Source(
        columns=columns_of(session, rule),
        source=rule.source,
        condition=f"{rule.condition} AND {rule.since} < %(before)s::timestamptz",
        since=rule.since,
        values={"at": parameters.at, "before": parameters.before},
    )


def columns_of(session: psycopg.Connection[Any], rule: Rule) -> tuple[Column, ...]:
    """All columns that a table has now, and one for each table whose rows go along."""
    rows = session.execute(_COLUMNS, [rule.table]).fetchall()
    kinds = {name: _KINDS.get(kind, ColumnKind.TEXT) for name, kind in rows}
    own = [Column(name, kind, f"t.{quoted(name)}") for name, kind in kinds.items()]
    return (*own, *(_along(other, refers) for other, refers in rule.along))


def _along(table: str, refers: str) -> Column:
    """All rows of another table that go with a row, as a JSON array."""
    rows = f"SELECT jsonb_agg(to_jsonb(x) ORDER BY x.id) FROM {table} x WHERE x.{refers} = t.{KEY}"
    return Column(table.partition("_")[2], ColumnKind.TEXT, rows)
