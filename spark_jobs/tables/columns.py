"""Columns of rows that are read: their SQL, their types, and the sum that proves them."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

# Of a row's digest so many hexadecimal digits are summed up: they fit a bigint.
SUMMED_DIGITS: Final = 15


class ColumnKind(StrEnum):
    """The kind of a value. A moment is microseconds since 1970: no zone or calendar in between."""

    TEXT = "text"
    JSON = "json"
    WHOLE = "whole"
    FLAG = "flag"
    MOMENT = "moment"
    BYTES = "bytes"


# In the database, and in Spark.
_TYPES: Final = {
    ColumnKind.TEXT: ("text", "STRING"),
    ColumnKind.JSON: ("text", "STRING"),
    ColumnKind.WHOLE: ("bigint", "BIGINT"),
    ColumnKind.FLAG: ("boolean", "BOOLEAN"),
    ColumnKind.MOMENT: ("bigint", "BIGINT"),
    ColumnKind.BYTES: ("bytea", "BINARY"),
}


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its name in the files, its kind, and the SQL that gives it."""

    name: str
    kind: ColumnKind
    sql: str

    @property
    def database_type(self) -> str:
        return _TYPES[self.kind][0]

    @property
    def spark_type(self) -> str:
        return _TYPES[self.kind][1]

    @property
    def selected(self) -> str:
        value = self.sql
        if self.kind is ColumnKind.MOMENT:
            value = f"extract(epoch FROM {value}) * 1000000"
        return f"({value})::{self.database_type} AS {quoted(self.name)}"


def quoted(name: str) -> str:
    """An identifier, whatever signs it has, in a statement that has parameters."""
    return '"' + name.replace('"', '""').replace("%", "%%") + '"'


def select(columns: Sequence[Column], source: str, condition: str) -> str:
    """SQL: these columns of the rows that meet the condition."""
    texts = ", ".join(column.selected for column in columns)
    return f"SELECT {texts} FROM {source} WHERE {condition}"


def digest_sql(columns: Sequence[Column]) -> str:
    """SQL: what `digest` computes, of a row `c` that `select` gave."""
    pieces = ", ".join(_piece(column) for column in columns)
    return f"encode(sha256(convert_to(concat({pieces}), 'UTF8')), 'hex')"


def tally_sql(columns: Sequence[Column], source: str, condition: str) -> str:
    """SQL: how many rows there are, and the sum of their digests' beginnings."""
    # OFFSET keeps the columns from being computed again for each piece.
    rows = f"{select(columns, source, condition)} OFFSET 0"
    summed = f"('x' || left({digest_sql(columns)}, {SUMMED_DIGITS}))::bit(60)::bigint"
    return f"SELECT count(*), coalesce(sum({summed}), 0) FROM ({rows}) c"


def digest(values: Sequence[Any]) -> str:
    """A row's values as one text of 64 hexadecimal digits; the same as SQL's."""
    text = "".join(map(_summand, values))
    return hashlib.sha256(text.encode()).hexdigest()


def summed(text: str) -> int:
    """Return the part of a digest that is summed up."""
    return int(text[:SUMMED_DIGITS], 16)


def _piece(column: Column) -> str:
    name = f"c.{quoted(column.name)}"
    text = f"encode(sha256({name}), 'hex')" if column.kind is ColumnKind.BYTES else f"{name}::text"
    return f"CASE WHEN {name} IS NULL THEN '-' ELSE length({text}) || ':' || {text} END"


def _summand(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bytes | bytearray):
        text = hashlib.sha256(value).hexdigest()
    elif isinstance(value, bool):
        text = "true" if value else "false"
    else:
        text = str(value)
    return f"{len(text)}:{text}"
