"""Cuts what is exported into ranges, before anything is read: a rerun reads the same ones.

Documents go by their keys, in whose order they are written. Tracked messages go by where they lie
on the disk, because no index leads from a moment to its rows; a day is a table of its own.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import psycopg

from integration.track_parts import DEFAULT, IN_UTC, LIST, Part, parts_of
from spark_jobs.exports.parameters import ExportParameters, What
from spark_jobs.exports.selecting import DOCUMENTS
from spark_jobs.parameters import RunPlan
from spark_jobs.tables.ranges import Bound, block_cuts

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
    low: Bound
    high: Bound


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(RunPlan):
    """The ranges of a run, and the moment they were cut at, as ISO text."""

    at: str
    ranges: tuple[Range, ...]


def plan(
    session: psycopg.Connection[Any], parameters: ExportParameters, rows: int = RANGE_ROWS
) -> Plan:
    """Cut into ranges of about so many rows; there is always one."""
    at: datetime = _one(session.execute(_NOW))
    if parameters.what is What.DOCUMENTS:
        cuts = _by_key(session, parameters.structure, rows)
    else:
        cuts = _by_block(session, parameters)
    ranges = (
        Range(number=number, table=table, low=low, high=high)
        for number, (table, low, high) in enumerate(cuts)
    )
    return Plan(at=at.isoformat(), ranges=tuple(ranges))


Cut = tuple[str, Bound, Bound]


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
    """Return whether rows of the days of a part can be wanted."""
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
