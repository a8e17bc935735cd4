"""Reads the rows of an export out of one moment of the database, range by range."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

from spark_jobs.errors import JobError
from spark_jobs.exports import planning
from spark_jobs.exports.parameters import ExportParameters
from spark_jobs.exports.planning import Plan, Range
from spark_jobs.exports.selecting import DOCUMENTS, Selection, selection
from spark_jobs.exports.shaping import Row, shaped
from spark_jobs.tables.ranges import within
from spark_jobs.tables.reading import hold, moment, rows
from spark_jobs.work import Work


class Source(NamedTuple):
    """The source of a task: the database, the snapshot that all share, and which rows."""

    database: str
    snapshot: str
    parameters: ExportParameters
    selection: Selection


class Opened(NamedTuple):
    """The rows to export, as they are at the moment that is held, and their number."""

    source: Source
    plan: Plan
    rows: int


@contextmanager
def opened(work: Work, parameters: ExportParameters) -> Iterator[Opened]:
    """Plan unless it was planned, and hold one moment and the tables while rows are read.

    Raises JobError SOURCE_GONE for a day that was removed since it was planned.
    """
    with moment(work.arguments.database) as held:
        plan = work.planned(Plan, partial(planning.plan, held.session, parameters))
        for table in sorted({part.table for part in plan.ranges}):
            if not hold(held.session, table):
                raise JobError(
                    "SOURCE_GONE",
                    f"{table} is gone: the cleanup has removed that day since the run was planned.",
                    "Start a new run: it exports what is still there.",
                )
        chosen = selection(parameters)
        row = held.session.execute(chosen.counting().encode(), chosen.values).fetchone()
        count = int(row[0]) if row else 0
        work.tell.say(f"{count:,} rows in {len(plan.ranges):,} ranges.")
        source = Source(work.arguments.database, held.snapshot, parameters, chosen)
        yield Opened(source, plan, count)


def rows_of(source: Source, part: Range) -> Iterator[Row]:
    """The rows of a range as values; documents in the order of their keys."""
    return map(shaped(source.parameters, source.selection).values, raw_rows(source, part))


def raw_rows(source: Source, part: Range) -> Iterator[Row]:
    """The same as SQL gives them."""
    chosen = source.selection
    condition, bounds = within(part.low, part.high, "t.key", "text")
    statement = chosen.statement(condition, part.table)
    if part.table == DOCUMENTS:
        statement += " ORDER BY t.key"
    values = {**chosen.values, **bounds}
    return rows(source.database, source.snapshot, statement, values, chosen.columns)
