"""Cuts what is exported into ranges, before anything is read: a rerun reads the same ones.

Documents go by their keys, in whose order they are written. Tracked messages go by where they lie
on the disk, because no index leads from a moment to its rows; a day is a table of its own.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple

import psycopg
from psycopg import sql
from psycopg.errors import UndefinedTable

from integration.track_parts import DEFAULT, IN_UTC, LIST, Part, parts_of
from spark_jobs.contract import Arguments, Tell
from spark_jobs.exports.parameters import ExportParameters, What
from spark_jobs.exports.selecting import DOCUMENTS, Selection
from spark_jobs.problems import JobError
from spark_jobs.tables.blocks import block_cuts
from spark_jobs.tables.reading import Moment

RANGE_ROWS: Final = 100_000
# A plan is a row's value: where there is more to export, its ranges are longer.
MOST_RANGES: Final = 2_000
_COUNT: Final = f"SELECT count(*) FROM {DOCUMENTS} WHERE structure_id = %s"
_CUTS: Final = f"""
SELECT key FROM (
  SELECT key, row_number() OVER (ORDER BY key) AS number FROM {DOCUMENTS} WHERE structure_id = %s
) placed WHERE number %% %s = 0 ORDER BY key"""
_NOW: Final = "SELECT clock_timestamp()"


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """A part of a table: from `low` up to, and without, `high`; None has no end there.

    Of documents these are keys, of messages numbers of blocks of the table.
    """

    number: int
    table: str
    low: str | int | None
    high: str | int | None


class Plan(NamedTuple):
    """The ranges of a run, and the moment they were cut at, as ISO text."""

    at: str
    ranges: tuple[Range, ...]

    def told(self) -> dict[str, Any]:
        return {"at": self.at, "ranges": list(map(asdict, self.ranges))}

    @staticmethod
    def of(said: Mapping[str, Any]) -> "Plan":
        """The inverse of `told`."""
        return Plan(said["at"], tuple(Range(**one) for one in said["ranges"]))


def plan(
    session: psycopg.Connection[Any], parameters: ExportParameters, rows: int = RANGE_ROWS
) -> Plan:
    """Cut into ranges of about so many rows; there is always one. Raises JobError."""
    at: datetime = _one(session.execute(_NOW))
    if parameters.what is What.DOCUMENTS:
        cuts = _by_key(session, parameters.structure, rows)
    else:
        cuts = _by_block(session, parameters)
    ranges = (
        Range(number=number, table=table, low=low, high=high)
        for number, (table, low, high) in enumerate(cuts)
    )
    return Plan(at.isoformat(), tuple(ranges))


def planned(held: Moment, arguments: Arguments, parameters: ExportParameters, tell: Tell) -> Plan:
    """What was planned for this run, or a plan made now and told; its tables are held."""
    if arguments.plan:
        made = Plan.of(arguments.plan)
    else:
        made = plan(held.session, parameters)
        tell.planned(made.told())
    hold(held.session, made)
    return made


def count(held: Moment, chosen: Selection) -> int:
    """How many rows there are at that moment."""
    row = held.session.execute(chosen.counting().encode(), chosen.said).fetchone()
    return int(row[0]) if row else 0


def hold(session: psycopg.Connection[Any], made: Plan) -> None:
    """Keep the tables of a plan from being removed while they are read.

    Raises JobError SOURCE_GONE for a day that was removed since it was planned.
    """
    for table in sorted({part.table for part in made.ranges}):
        name = sql.Identifier(table)
        try:
            session.execute(sql.SQL("LOCK TABLE {} IN ACCESS SHARE MODE").format(name))
        except UndefinedTable:
            raise JobError(
                "SOURCE_GONE",
                f"{table} is gone: the cleanup has removed that day since the run was planned.",
                "Start a new run: it exports what is still there.",
            ) from None


def condition_of(part: Range) -> tuple[str, dict[str, Any]]:
    """SQL over `t` for the rows of a range, and what it is told."""
    if part.table == DOCUMENTS:
        column, kind = "t.key", "text"
    else:
        column, kind = "t.ctid", "tid"
    said = {
        name: f"({bound},0)" if isinstance(bound, int) else bound
        for name, bound in (("low", part.low), ("high", part.high))
        if bound is not None
    }
    signs = {"low": ">=", "high": "<"}
    conditions = [f"{column} {signs[name]} %({name})s::{kind}" for name in said]
    return " AND ".join(["true", *conditions]), said


Cut = tuple[str, str | int | None, str | int | None]


def _by_key(session: psycopg.Connection[Any], structure: int, rows: int) -> list[Cut]:
    count: int = _one(session.execute(_COUNT, [structure]))
    rows = max(rows, -(-count // MOST_RANGES))
    keys = [key for (key,) in session.execute(_CUTS, [structure, rows]).fetchall()]
    return [(DOCUMENTS, low, high) for low, high in zip([None, *keys], [*keys, None], strict=True)]


def _by_block(session: psycopg.Connection[Any], parameters: ExportParameters) -> list[Cut]:
    session.execute(IN_UTC)
    parts = parts_of(session.execute(LIST).fetchall())
    tables = [part.table for part in parts if _is_within(part, parameters)] + [DEFAULT]
    most = max(MOST_RANGES // len(tables), 1)
    return [cut for table in tables for cut in block_cuts(session, table, most)]


def _is_within(part: Part, parameters: ExportParameters) -> bool:
    """Whether rows of the days of a part can be wanted."""
    since, until = (_moment(text) for text in (parameters.since, parameters.until))
    if since is not None and part.until <= since:
        return False
    return until is None or part.begin is None or part.begin < until


def _moment(text: str) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


def _one(cursor: psycopg.Cursor[Any]) -> Any:
    row = cursor.fetchone()
    assert row is not None  # noqa: S101 - an aggregate and a function have a row
    return row[0]
