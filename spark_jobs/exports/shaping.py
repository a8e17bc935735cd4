"""Makes of a row what is written: values in the order of the columns, and lines of text."""

import csv
import io
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from json import JSONEncoder
from operator import attrgetter
from typing import Any, Final, NamedTuple

from integration.masking.mask import HIDDEN
from spark_jobs.exports.hiding import hiding_of_documents, hiding_of_records
from spark_jobs.exports.parameters import ExportParameters, Format, Formulas, Wanted, What, steps_of
from spark_jobs.exports.payloads import Payload
from spark_jobs.exports.selecting import BARE, BASE64, PAYLOAD, WHOLE, Selection
from spark_jobs.tables.columns import Column, ColumnKind

Row = Sequence[Any]
_Getter = Callable[[Row, Payload | None], Any]
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_quoted: Final = JSONEncoder(ensure_ascii=False).encode
# Characters that spreadsheets take for the beginning of a formula.
_BEGINS_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
_NUMBER: Final = re.compile(r"[-+]?\d+(?:\.\d+)?", re.ASCII)


class Shaped(NamedTuple):
    """The columns that are written, and what makes their values of a row that SQL gave."""

    columns: tuple[Column, ...]
    values: Callable[[Row], Row]


def shaped(parameters: ExportParameters, selection: Selection) -> Shaped:
    """Documents are taken apart by SQL; messages here, because tracking compresses payloads."""
    if parameters.what is What.DOCUMENTS:
        return Shaped(selection.columns, hiding_of_documents(parameters, selection))
    hide = hiding_of_records(parameters)
    places = {column.name: place for place, column in enumerate(selection.columns)}
    hidden = frozenset(parameters.hidden)
    made = [
        _of_message(wish, parameters.format, selection, places, hidden) for wish in selection.wanted
    ]
    getters = [getter for _, getter in made]
    column = places.get(PAYLOAD.name)

    def values(row: Row) -> Row:
        compressed = None if column is None else row[column]
        payload = None if compressed is None else Payload(compressed, hide)
        return [getter(row, payload) for getter in getters]

    return Shaped(tuple(column for column, _ in made), values)


def _of_message(
    wish: Wanted,
    form: Format,
    selection: Selection,
    places: dict[str, int],
    hidden: frozenset[str],
) -> tuple[Column, _Getter]:
    if wish.is_path:
        steps, is_json = steps_of(wish.source), form is Format.JSON_LINES
        kind = ColumnKind.JSON if is_json else ColumnKind.TEXT
        return Column(wish.name, kind, ""), _asked(
            lambda payload: payload.json_at(steps) if is_json else payload.text_at(steps)
        )
    if wish.source == BASE64:
        return Column(wish.name, ColumnKind.TEXT, ""), _asked(attrgetter("base64"))
    if wish.source == PAYLOAD.name and form is not Format.PARQUET:
        return Column(wish.name, ColumnKind.TEXT, ""), _asked(attrgetter("text"))
    if wish.source == PAYLOAD.name:
        return Column(wish.name, ColumnKind.BYTES, ""), _asked(attrgetter("raw"))
    place = places[wish.source]
    column = Column(wish.name, selection.columns[place].kind, "")
    if wish.source in hidden:
        return column, lambda row, _: HIDDEN if row[place] else row[place]
    return column, lambda row, _: row[place]


def _asked(ask: Callable[[Payload], Any]) -> _Getter:
    return lambda _, payload: None if payload is None else ask(payload)


def json_lines(columns: Sequence[Column]) -> Callable[[Sequence[Row]], str]:
    """Make lines of JSON of rows of values; of a bare document its own text."""
    if tuple(columns) in ((BARE,), (WHOLE,)):
        return lambda rows: "".join([f"{row[0]}\n" for row in rows])
    names = [f"{_quoted(column.name)}:" for column in columns]
    kinds = [column.kind for column in columns]

    def text(rows: Sequence[Row]) -> str:
        lines = []
        for row in rows:
            values = map(_as_json, row, kinds)
            members = ",".join(map(str.__add__, names, values))
            lines.append(f"{{{members}}}\n")
        return "".join(lines)

    return text


def csv_lines(
    columns: Sequence[Column], parameters: ExportParameters
) -> Callable[[Sequence[Row]], str]:
    """Make CSV as RFC 4180 has it: in quotes is what holds a delimiter, a quote or a line."""
    kinds = [column.kind for column in columns]
    is_exact = parameters.formulas is Formulas.EXACT

    def text(rows: Sequence[Row]) -> str:
        made = io.StringIO(newline="")
        writer = csv.writer(made, delimiter=parameters.delimiter, lineterminator="\r\n")
        for row in rows:
            texts = map(_as_text, row, kinds)
            writer.writerow(texts if is_exact else map(harmless, texts))
        return made.getvalue()

    return text


def header(columns: Sequence[Column], parameters: ExportParameters) -> str:
    """The first row of a CSV file."""
    named = [Column(column.name, ColumnKind.TEXT, "") for column in columns]
    return csv_lines(named, parameters)([[column.name for column in columns]])


def harmless(text: str) -> str:
    """The text behind an apostrophe where a spreadsheet would run it; numbers stay.

    >>> harmless("=1+1"), harmless("-5"), harmless("A-5")
    ("'=1+1", '-5', 'A-5')
    """
    if text.startswith(_BEGINS_FORMULA) and not _NUMBER.fullmatch(text):
        return f"'{text}"
    return text


def moment(micros: int) -> str:
    """Microseconds since 1970 as people read them.

    >>> moment(0)
    '1970-01-01T00:00:00.000000Z'
    """
    at = (_EPOCH + timedelta(microseconds=micros)).replace(tzinfo=None)
    return f"{at.isoformat(timespec='microseconds')}Z"


def _as_json(value: Any, kind: ColumnKind) -> str:
    if value is None:
        return "null"
    if kind is ColumnKind.JSON:
        return str(value)
    return _quoted(moment(value) if kind is ColumnKind.MOMENT else value)


def _as_text(value: Any, kind: ColumnKind) -> str:
    if value is None:
        return ""
    if kind is ColumnKind.MOMENT:
        return moment(value)
    if kind is ColumnKind.FLAG:
        return "true" if value else "false"
    return str(value)
