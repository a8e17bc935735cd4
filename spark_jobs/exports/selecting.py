"""The rows an export reads, and the columns: as SQL over the table `t`."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from spark_jobs.exports.parameters import ExportParameters, Format, Wanted, What, steps_of
from spark_jobs.tables.columns import Column, ColumnKind, select

DOCUMENTS: Final = "integration_storedobject"
MESSAGES: Final = "integration_messagetrack"
_DELETED: Final = "t.document IS NULL AND t.xml = ''"
# A removed document is a row that remembers it; XML has its text in a column of its own.
OF_DOCUMENTS: Final[Mapping[str, Column]] = {
    column.name: column
    for column in (
        Column("key", ColumnKind.TEXT, "t.key"),
        Column("version", ColumnKind.WHOLE, "t.version"),
        Column("updated_at", ColumnKind.MOMENT, "t.updated_at"),
        Column("deleted", ColumnKind.FLAG, _DELETED),
        Column("document", ColumnKind.JSON, "t.document"),
        Column("xml", ColumnKind.TEXT, "nullif(t.xml, '')"),
        Column("message_id", ColumnKind.TEXT, "t.message_id"),
        Column("arrival_batch", ColumnKind.WHOLE, "t.arrival_batch"),
        Column("arrival_index", ColumnKind.WHOLE, "t.arrival_index"),
    )
}
OF_MESSAGES: Final[Mapping[str, Column]] = {
    column.name: column
    for column in (
        Column("message_id", ColumnKind.TEXT, "t.message_id"),
        Column("queue", ColumnKind.TEXT, "q.name"),
        Column("direction", ColumnKind.TEXT, "q.direction"),
        Column("partition", ColumnKind.WHOLE, "t.partition"),
        Column("offset", ColumnKind.WHOLE, 't."offset"'),
        Column("service", ColumnKind.TEXT, "t.interface"),
        Column("state", ColumnKind.TEXT, "t.ended"),
        Column("at", ColumnKind.MOMENT, "t.at"),
        Column("kafka_ms", ColumnKind.WHOLE, "nullif(t.kafka_ms, 0)"),
        Column("key", ColumnKind.TEXT, "t.key"),
        Column("external_id", ColumnKind.TEXT, "t.external_id"),
        Column("search_a", ColumnKind.TEXT, "t.search_a"),
        Column("search_b", ColumnKind.TEXT, "t.search_b"),
        Column("caused_by", ColumnKind.TEXT, "t.caused_by"),
        Column("arrival_batch", ColumnKind.WHOLE, "t.arrival_batch"),
    )
}
# As the record had it; tracking keeps it compressed.
PAYLOAD: Final = Column("payload", ColumnKind.BYTES, "t.payload")
BASE64: Final = "payload_base64"
# A value of JSON as its own text: without the quotes of a text, with all digits of a number.
_AS_TEXT: Final = "#>> '{}'"
# The line itself: a document, or the text of one that came as XML.
BARE: Final = Column(
    "document", ColumnKind.JSON, "coalesce(t.document::text, to_jsonb(t.xml)::text)"
)
# The same as a payload: XML stays XML.
WHOLE: Final = Column("document", ColumnKind.JSON, "coalesce(t.document::text, t.xml)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The rows to read: the columns of `source` where `condition` is met, given `values`.

    `source` holds {table} where the rows lie. `wanted` are the columns that are written; where
    they come out of payloads, `columns` has the payload instead.
    """

    table: str
    source: str
    condition: str
    values: Mapping[str, Any]
    columns: tuple[Column, ...]
    wanted: tuple[Wanted, ...]

    def statement(self, more: str = "true", table: str = "") -> str:
        return select(self.columns, self._source(table), f"{self.condition} AND {more}")

    def counting(self) -> str:
        return f"SELECT count(*) FROM {self._source()} WHERE {self.condition}"

    def _source(self, table: str = "") -> str:
        return self.source.format(table=table or self.table)


def selection(parameters: ExportParameters) -> Selection:
    """Raises JobError BAD_PARAMETERS for a column that is neither a field nor a path."""
    is_documents = parameters.what is What.DOCUMENTS
    return _documents(parameters) if is_documents else _messages(parameters)


def _documents(parameters: ExportParameters) -> Selection:
    values: dict[str, Any] = {"structure": parameters.structure, **_times(parameters)}
    conditions = ["t.structure_id = %(structure)s", *_within("t.updated_at", values)]
    if not parameters.deleted:
        conditions.append(f"NOT ({_DELETED})")
    if parameters.key:
        conditions.append("t.key LIKE %(key)s")
        values["key"] = _like(parameters.key)
    if parameters.where is not None:
        path, values["value"] = parameters.where
        values["path"] = json_path(steps_of(path))
        conditions.append(f"{_value_at('path')} {_AS_TEXT} = %(value)s")
    wanted = parameters.columns or _all(OF_DOCUMENTS, parameters)
    is_json = parameters.format is Format.JSON_LINES
    columns = [_document_column(wish, place, is_json=is_json) for place, wish in enumerate(wanted)]
    values |= {f"path{n}": json_path(steps_of(w.source)) for n, w in enumerate(wanted) if w.is_path}
    return Selection(
        table=DOCUMENTS,
        source="{table} t",
        condition=" AND ".join(conditions),
        values=values,
        columns=tuple(columns) or (BARE if parameters.target is None else WHOLE,),
        wanted=tuple(wanted),
    )


def _messages(parameters: ExportParameters) -> Selection:
    values: dict[str, Any] = _times(parameters)
    conditions = ["true", *_within("t.at", values)]
    if parameters.queues is not None:
        conditions.append("t.queue_id = ANY(%(queues)s::bigint[])")
        values["queues"] = list(parameters.queues)
    for name, column in (("service", "interface"), ("state", "ended")):
        if value := getattr(parameters, name):
            conditions.append(f"t.{column} = %({name})s")
            values[name] = value
    wanted = parameters.columns or _all(OF_MESSAGES, parameters)
    names = dict.fromkeys(wish.source for wish in wanted if not _is_of_payload(wish))
    columns = [_field(OF_MESSAGES, name) for name in names]
    if any(map(_is_of_payload, wanted)):
        columns.append(PAYLOAD)
    return Selection(
        table=MESSAGES,
        source="{table} t LEFT JOIN integration_queue q ON q.id = t.queue_id",
        condition=" AND ".join(conditions),
        values=values,
        columns=tuple(columns),
        wanted=tuple(wanted),
    )


def json_path(steps: Sequence[str | int]) -> str:
    """The same path as PostgreSQL writes it.

    >>> json_path(("lines", 0, "part number"))
    'strict $."lines"[0]."part number"'
    """
    path = (f"[{step}]" if isinstance(step, int) else f".{json.dumps(step)}" for step in steps)
    return f"strict ${''.join(path)}"


def _all(fields: Mapping[str, Column], parameters: ExportParameters) -> list[Wanted]:
    if parameters.what is What.DOCUMENTS and parameters.format is Format.JSON_LINES:
        return []
    names = list(fields)
    if parameters.what is What.MESSAGES and parameters.payload:
        names.append(PAYLOAD.name)
        if parameters.format is not Format.PARQUET:
            names.append(BASE64)
    return [Wanted(name=name, source=name) for name in names]


def _is_of_payload(wish: Wanted) -> bool:
    return wish.is_path or wish.source in (PAYLOAD.name, BASE64)


def _document_column(wish: Wanted, place: int, *, is_json: bool) -> Column:
    if not wish.is_path:
        field = _field(OF_DOCUMENTS, wish.source)
        return Column(wish.name, field.kind, field.sql)
    value = _value_at(f"path{place}")
    if is_json:
        return Column(wish.name, ColumnKind.JSON, value)
    return Column(wish.name, ColumnKind.TEXT, f"{value} {_AS_TEXT}")


def _value_at(parameter: str) -> str:
    """Return what is at a path of the document; nothing where it leads nowhere."""
    return f"jsonb_path_query_first(t.document, %({parameter})s::jsonpath, '{{}}', true)"


def _field(fields: Mapping[str, Column], name: str) -> Column:
    if name in fields:
        return fields[name]
    names = ", ".join([*fields, *([PAYLOAD.name, BASE64] if fields is OF_MESSAGES else [])])
    raise ExportParameters.bad(f"{name!r} is neither a path that begins with $ nor one of {names}")


def _within(column: str, times: Mapping[str, Any]) -> list[str]:
    signs = {"since": ">=", "until": "<"}
    return [f"{column} {signs[n]} %({n})s::timestamptz" for n in signs if n in times]


def _times(parameters: ExportParameters) -> dict[str, Any]:
    times = {"since": parameters.since, "until": parameters.until}
    return {name: text for name, text in times.items() if text}


def _like(pattern: str) -> str:
    """* stands for any signs and ? for one; all others mean themselves."""
    for sign in "\\%_":
        pattern = pattern.replace(sign, f"\\{sign}")
    return pattern.replace("*", "%").replace("?", "_")
