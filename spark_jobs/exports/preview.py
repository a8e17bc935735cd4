"""The preview of an export: its first rows and how many there are; nothing is written."""

from typing import Any, Final

import psycopg

from spark_jobs.contract import SAMPLES, Arguments, Preview, Sample
from spark_jobs.exports.parameters import ExportParameters, Format
from spark_jobs.exports.selecting import Selection, selection
from spark_jobs.exports.shaping import Row, csv_lines, json_lines, shaped
from spark_jobs.tables.columns import Column, ColumnKind
from spark_jobs.tables.reading import look, seen

SHOWN_CHARACTERS: Final = 2_000
_KEYS: Final = ("key", "message_id")


def preview(arguments: Arguments) -> Preview:
    """The first rows as they would be written, and about how many there are.

    Raises JobError BAD_PARAMETERS.
    """
    parameters = ExportParameters.of(arguments.parameters)
    chosen = selection(parameters)
    columns, values = shaped(parameters, chosen)
    with look(arguments.database) as session:
        # None where a filter that nearly nothing meets would take too long.
        first = seen(session, f"{chosen.statement()} LIMIT {SAMPLES}", chosen.values) or []
        count, is_counted = _counted(session, chosen)
    rows = [values(row) for row in first]
    texts = _texts(parameters, columns, rows)
    size = sum(len(text.encode()) for text in texts)
    ends = "exported" if parameters.target is None else "sent"
    return Preview(
        samples=[
            Sample(place=_place(number, columns, row), ends=ends, text=text[:SHOWN_CHARACTERS])
            for number, (row, text) in enumerate(zip(rows, texts, strict=True), 1)
        ],
        rows=count,
        bytes=round(size / len(texts) * count) if texts else None,
        columns=[column.name for column in columns],
        facts={"counted": is_counted},
    )


def _counted(session: psycopg.Connection[Any], chosen: Selection) -> tuple[int, bool]:
    """Count the rows, and tell whether they were counted or are the planner's guess."""
    counted = seen(session, chosen.counting(), chosen.values)
    if counted is not None:
        return int(counted[0][0]), True
    statement = f"EXPLAIN (FORMAT JSON) {chosen.statement()}"
    plan = session.execute(statement.encode(), chosen.values).fetchone()
    return int(plan[0][0]["Plan"]["Plan Rows"]) if plan else 0, False


def _texts(parameters: ExportParameters, columns: tuple[Column, ...], rows: list[Row]) -> list[str]:
    """Each row alone; of Parquet, which is no text, as it would be in JSON."""
    if parameters.format is Format.CSV:
        text = csv_lines(columns, parameters)
    else:
        shown = [
            Column(c.name, ColumnKind.TEXT if c.kind is ColumnKind.BYTES else c.kind, "")
            for c in columns
        ]
        text = json_lines(shown if parameters.format is Format.PARQUET else columns)
        rows = [[_shown(value) for value in row] for row in rows]
    return [text([row]).rstrip("\r\n") for row in rows]


def _shown(value: object) -> object:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _place(number: int, columns: tuple[Column, ...], row: Row) -> str:
    """The key or id where that is a column, else which row it is."""
    for column, value in zip(columns, row, strict=True):
        if column.name in _KEYS and value:
            return str(value)[:200]
    return f"row {number}"
